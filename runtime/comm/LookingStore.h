#ifndef FSDP_RUNTIME_COMM_LOOKINGSTORE_H
#define FSDP_RUNTIME_COMM_LOOKINGSTORE_H

#include <functional>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace fsdp {

/// Another store, whose waits look up several times a second: `look` may throw
/// where what is waited for will not come.
class LookingStore : public c10d::Store {
public:
  using Bytes = std::vector<uint8_t>;
  using Keys = std::vector<std::string>;

  LookingStore(c10::intrusive_ptr<c10d::Store> store,
               std::function<void()> look);
  void stopLooking() { look = nullptr; }

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string &key, const Bytes &value) override;
  Bytes get(const std::string &key) override;
  int64_t add(const std::string &key, int64_t value) override;
  bool deleteKey(const std::string &key) override;
  bool check(const Keys &keys) override;
  int64_t getNumKeys() override;
  void wait(const Keys &keys) override;
  void wait(const Keys &keys,
            const std::chrono::milliseconds &timeout) override;
  const std::chrono::milliseconds &getTimeout() const noexcept override;
  void setTimeout(const std::chrono::milliseconds &timeout) override;
  bool hasExtendedApi() const override;
  void append(const std::string &key, const Bytes &value) override;
  std::vector<Bytes> multiGet(const Keys &keys) override;
  void multiSet(const Keys &keys, const std::vector<Bytes> &values) override;

private:
  c10::intrusive_ptr<c10d::Store> store;
  std::function<void()> look;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_LOOKINGSTORE_H
