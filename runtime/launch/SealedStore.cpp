#include "launch/SealedStore.h"

#include <algorithm>
#include <array>
#include <sodium.h>

namespace fsdp {

namespace {

using Bytes = std::vector<uint8_t>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

constexpr size_t nonceBytes = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr size_t tagBytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;
using EncryptionKey =
    std::array<unsigned char, crypto_aead_xchacha20poly1305_ietf_KEYBYTES>;

EncryptionKey keyOf(const std::string &secret) {
  if (sodium_init() < 0)
    throw Error(E::System,
                "this system gives no random numbers, which a secret needs");
  static constexpr char purpose[] = "fsdp-run: what ranks say where they meet";
  EncryptionKey key;
  crypto_generichash(
      key.data(), key.size(),
      reinterpret_cast<const unsigned char *>(secret.data()), secret.size(),
      reinterpret_cast<const unsigned char *>(purpose), sizeof(purpose) - 1);
  return key;
}

class SealedStore : public c10d::Store {
public:
  SealedStore(StorePtr store, const EncryptionKey &secret)
      : c10d::Store(store->getTimeout()), store(std::move(store)),
        secret(secret) {}

  StorePtr clone() override {
    return c10::make_intrusive<SealedStore>(store->clone(), secret);
  }
  void set(const std::string &key, const Bytes &value) override {
    store->set(key, seal(key, value));
  }
  Bytes get(const std::string &key) override {
    return open(key, store->get(key));
  }
  int64_t add(const std::string &key, int64_t value) override {
    return store->add(key, value);
  }
  bool deleteKey(const std::string &key) override {
    return store->deleteKey(key);
  }
  bool check(const std::vector<std::string> &keys) override {
    return store->check(keys);
  }
  int64_t getNumKeys() override { return store->getNumKeys(); }
  void wait(const std::vector<std::string> &keys) override {
    store->wait(keys);
  }
  void wait(const std::vector<std::string> &keys,
            const std::chrono::milliseconds &timeout) override {
    store->wait(keys, timeout);
  }
  const std::chrono::milliseconds &getTimeout() const noexcept override {
    return store->getTimeout();
  }
  void setTimeout(const std::chrono::milliseconds &timeout) override {
    store->setTimeout(timeout);
  }
  // Several values at once: Store's own loop over `get` and `set` is sealed.
  bool hasExtendedApi() const override { return false; }

private:
  Bytes seal(const std::string &key, const Bytes &value) const {
    Bytes sealed(nonceBytes + value.size() + tagBytes);
    randombytes_buf(sealed.data(), nonceBytes);
    crypto_aead_xchacha20poly1305_ietf_encrypt(
        sealed.data() + nonceBytes, nullptr, value.data(), value.size(),
        reinterpret_cast<const unsigned char *>(key.data()), key.size(),
        nullptr, sealed.data(), secret.data());
    return sealed;
  }
  Bytes open(const std::string &key, const Bytes &sealed) const {
    Bytes value(std::max(sealed.size(), nonceBytes + tagBytes) - nonceBytes -
                tagBytes);
    if (sealed.size() < nonceBytes + tagBytes ||
        crypto_aead_xchacha20poly1305_ietf_decrypt(
            value.data(), nullptr, nullptr, sealed.data() + nonceBytes,
            sealed.size() - nonceBytes,
            reinterpret_cast<const unsigned char *>(key.data()), key.size(),
            sealed.data(), secret.data()) != 0)
      throw BrokenSeal("what is said at " + key +
                       " was not written with this run's secret");
    return value;
  }

  StorePtr store;
  EncryptionKey secret;
};

} // namespace

StorePtr sealStore(StorePtr store, const std::string &secret) {
  return c10::make_intrusive<SealedStore>(std::move(store), keyOf(secret));
}

} // namespace fsdp
