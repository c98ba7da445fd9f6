#include "plan/Sha256.h"

#include <cstddef>
#include <cstdint>

namespace fsdp::plan {

namespace {

constexpr size_t blockBytes = 64;

// The fractions of the cube roots of the first 64 primes.
constexpr uint32_t roundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t rotate(uint32_t x, int bits) { return x >> bits | x << (32 - bits); }

struct Sha256 {
  // The fractions of the square roots of the first 8 primes.
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

  /// Takes in one block. Names as in the standard, section 6.2.2.
  void absorb(const unsigned char *block) {
    uint32_t w[64];
    for (int t = 0; t < 16; ++t, block += 4)
      w[t] = uint32_t(block[0]) << 24 | uint32_t(block[1]) << 16 |
             uint32_t(block[2]) << 8 | block[3];
    for (int t = 16; t < 64; ++t) {
      uint32_t x = w[t - 15], y = w[t - 2];
      w[t] = w[t - 16] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + w[t - 7] +
             (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; ++t) {
      uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                    ((e & f) ^ (~e & g)) + roundConstants[t] + w[t];
      uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                    ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1;
      d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t result[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i)
      state[i] += result[i];
  }
};

void appendBigEndian(std::string &out, uint64_t value, int bytes) {
  while (bytes-- > 0)
    out += static_cast<char>(value >> (8 * bytes));
}

} // namespace

std::string sha256(std::string_view data) {
  Sha256 hash;
  auto absorbBlocks = [&](std::string_view blocks) {
    for (size_t at = 0; at + blockBytes <= blocks.size(); at += blockBytes)
      hash.absorb(reinterpret_cast<const unsigned char *>(&blocks[at]));
  };
  absorbBlocks(data);
  // The rest, a one bit, zeros, and the length in bits, as whole blocks.
  std::string last(data.substr(data.size() / blockBytes * blockBytes));
  last += '\x80';
  while (last.size() % blockBytes != blockBytes - 8)
    last += '\0';
  appendBigEndian(last, uint64_t(data.size()) * 8, 8);
  absorbBlocks(last);

  std::string digest;
  for (uint32_t word : hash.state)
    appendBigEndian(digest, word, 4);
  return digest;
}

std::string toHex(std::string_view bytes) {
  std::string hex;
  for (unsigned char byte : bytes) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

} // namespace fsdp::plan
