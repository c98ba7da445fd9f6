#include "comm/LookingStore.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace fsdp {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

LookingStore::LookingStore(c10::intrusive_ptr<c10d::Store> store,
                           std::function<void()> look)
    : c10d::Store(store->getTimeout()), store(std::move(store)),
      look(std::move(look)) {}

void LookingStore::wait(const Keys &keys, const milliseconds &timeout) {
  constexpr milliseconds interval(250);
  const Clock::time_point end = Clock::now() + timeout;
  for (;;) {
    auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    try {
      store->wait(keys, std::clamp(left, milliseconds(1), interval));
      return;
    } catch (const std::exception &) {
      // The interval is over, or the store is gone, which check() throws.
      if (store->check(keys))
        return;
      if (Clock::now() >= end)
        throw;
    }
    if (look)
      look();
  }
}

void LookingStore::wait(const Keys &keys) { wait(keys, getTimeout()); }

LookingStore::Bytes LookingStore::get(const std::string &key) {
  wait({key});
  return store->get(key);
}

std::vector<LookingStore::Bytes> LookingStore::multiGet(const Keys &keys) {
  wait(keys);
  return store->multiGet(keys);
}

// As they are.

c10::intrusive_ptr<c10d::Store> LookingStore::clone() {
  return c10::make_intrusive<LookingStore>(store->clone(), look);
}

void LookingStore::set(const std::string &key, const Bytes &value) {
  store->set(key, value);
}

int64_t LookingStore::add(const std::string &key, int64_t value) {
  return store->add(key, value);
}

bool LookingStore::deleteKey(const std::string &key) {
  return store->deleteKey(key);
}

bool LookingStore::check(const Keys &keys) { return store->check(keys); }

int64_t LookingStore::getNumKeys() { return store->getNumKeys(); }

const milliseconds &LookingStore::getTimeout() const noexcept {
  return store->getTimeout();
}

void LookingStore::setTimeout(const milliseconds &timeout) {
  store->setTimeout(timeout);
}

bool LookingStore::hasExtendedApi() const { return store->hasExtendedApi(); }

void LookingStore::append(const std::string &key, const Bytes &value) {
  store->append(key, value);
}

void LookingStore::multiSet(const Keys &keys,
                            const std::vector<Bytes> &values) {
  store->multiSet(keys, values);
}

} // namespace fsdp
