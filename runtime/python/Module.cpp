// The extension module `fsdp_runtime`, which gives fsdp_mlir.loop.run its
// sessions. It has nothing but conversions, exceptions and Python's lock.
#include "FlagOrArgument.h"
#include "plan/Names.h"
#include "python/Interrupts.h"
#include "session/Session.h"

#include <ATen/EmptyTensor.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <iterator>

namespace py = pybind11;

namespace fsdp {

namespace {

using SessionPtr = std::shared_ptr<Session>;

void raiseInterrupt() {
  if (PyErr_CheckSignals() != 0)
    throw py::error_already_set();
}

/// Runs a call without Python's lock. An interrupt that came meanwhile is
/// raised after it, in place of the call's own error, which it may have caused.
template <typename Call> auto unlocked(const SessionPtr &session, Call &&call) {
  auto run = [&] {
    try {
      py::gil_scoped_release release;
      InterruptedCall interruptible(
          [session] { session->leave("it was interrupted"); });
      return call();
    } catch (const std::exception &) {
      raiseInterrupt();
      throw;
    }
  };
  if constexpr (std::is_void_v<decltype(run())>) {
    run();
    raiseInterrupt();
  } else {
    auto result = run();
    raiseInterrupt();
    return result;
  }
}

/// A value that is not a tensor becomes an undefined one, which the session
/// refuses.
Batch toBatch(const py::handle &given) {
  if (!PyDict_Check(given.ptr()) && !py::hasattr(given, "keys"))
    throw BatchError("a batch is a dict of tensors by name, and not " +
                     std::string(Py_TYPE(given.ptr())->tp_name));
  py::dict dict = PyDict_Check(given.ptr())
                      ? py::reinterpret_borrow<py::dict>(given)
                      : py::dict(py::reinterpret_borrow<py::object>(given));
  Batch batch;
  batch.reserve(dict.size());
  for (auto [name, value] : dict)
    batch.emplace_back(py::cast<std::string>(py::str(name)),
                       THPVariable_Check(value.ptr())
                           ? THPVariable_Unpack(value.ptr())
                           : at::Tensor());
  return batch;
}

std::vector<Batch> toBatches(const py::object &given) {
  std::vector<Batch> batches;
  if (given.is_none())
    return batches;
  if (PyList_Check(given.ptr()) || PyTuple_Check(given.ptr()))
    for (const py::handle &one : given)
      batches.push_back(toBatch(one));
  else
    batches.push_back(toBatch(given));
  return batches;
}

/// The batches of a call. Where they cannot be read this rank leaves the
/// others, which would wait for it.
std::vector<Batch> batchesFor(const SessionPtr &session,
                              const py::object &given) {
  try {
    return toBatches(given);
  } catch (const std::exception &error) {
    if (session->size() > 1)
      session->leave(error.what());
    throw;
  }
}

py::object wrap(const at::Tensor &tensor) {
  if (!tensor.defined())
    return py::none();
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
}

/// Where a batch comes from; see fsdp_mlir.data.batch_origins.
std::string wordsOf(const py::object &given, size_t batch, int64_t row) {
  try {
    return py::cast<std::string>(
        py::module_::import("fsdp_mlir.data.batch_origins")
            .attr("words_of_step")(given, batch, row));
  } catch (const py::error_already_set &) {
    return ""; // the session's error says what is wrong without this
  }
}

/// Takes a step, and gives its note to the caller as a warning.
void take(const SessionPtr &session, const py::object &given,
          const std::vector<Batch> &batches, std::vector<double> &outputs) {
  std::string note;
  unlocked(session, [&] {
    const SessionStep &taken =
        session->step(batches, [&](size_t batch, int64_t row) {
          py::gil_scoped_acquire acquire;
          return wordsOf(given, batch, row);
        });
    outputs = taken.outputs;
    note = taken.note;
  });
  if (!note.empty() && PyErr_WarnEx(PyExc_RuntimeWarning, note.c_str(), 1) != 0)
    throw py::error_already_set();
}

/// The loss of a step, or the losses of its turns by name. A single loss gets
/// its tensor before the step: after it, the code that makes tensors is no
/// longer in the CPU's caches.
py::object step(const SessionPtr &session, const py::object &given) {
  std::vector<Batch> batches = batchesFor(session, given);
  std::vector<double> outputs;
  if (session->losses().front().first.empty()) {
    at::Tensor loss = at::detail::empty_cpu({}, at::kDouble);
    double *value = loss.mutable_data_ptr<double>();
    py::object result = wrap(loss);
    take(session, given, batches, outputs);
    *value = outputs.at(0);
    return result;
  }
  take(session, given, batches, outputs);
  py::dict losses;
  for (const auto &[turn, place] : session->losses()) {
    at::Tensor loss = at::detail::empty_cpu({}, at::kDouble);
    *loss.mutable_data_ptr<double>() = outputs.at(place);
    losses[py::str(turn)] = wrap(loss);
  }
  return losses;
}

py::dict evaluate(const SessionPtr &session, const py::object &given) {
  std::vector<Batch> batches = batchesFor(session, given);
  Evaluated evaluated =
      unlocked(session, [&] { return session->evaluate(batches); });
  py::dict result;
  for (const auto &[name, value] : evaluated.numbers)
    result[py::str(name)] = value;
  for (const auto &[name, tensor] : evaluated.tensors)
    result[py::str(name)] = wrap(tensor);
  return result;
}

/// Those of the last step, named as in docs/metrics.md; empty before the first.
py::dict metrics(const Session &session) {
  py::dict result;
  const auto &last = session.last();
  if (!last)
    return result;
  result["step"] = last->number;
  for (size_t i = 0; i < session.names().size(); ++i)
    result[py::str(session.names()[i])] = last->outputs[i];
  result["step_ms"] = last->stepMs;
  result["data_wait_ms"] = last->dataWaitMs;
  if (last->exposedCommMs)
    result["exposed_comm_ms"] = *last->exposedCommMs;
  return result;
}

py::list states(const SessionPtr &session) {
  py::list result;
  for (const StateView &view : session->states()) {
    py::dict entry;
    entry["name"] = view.name;
    entry["aliases"] = view.aliases;
    entry["shape"] = view.shape;
    entry["dtype"] = plan::dtypeName(view.dtype);
    entry["role"] = plan::nameOf(view.role);
    entry["parameter"] = view.parameter;
    entry["missed"] = view.missed;
    entry["persistent"] = view.persistent;
    entry["shard_dim"] = view.shardDim;
    entry["local"] = wrap(view.local);
    result.append(entry);
  }
  return result;
}

py::dict whole(const SessionPtr &session, bool flatAlone, bool withOptimizer) {
  py::dict result;
  for (const auto &[name, tensor] : unlocked(
           session, [&] { return session->whole(flatAlone, withOptimizer); }))
    result[py::str(name)] = wrap(tensor);
  return result;
}

Transport transportNamed(const std::string &name) {
  for (const TransportInfo &info : transports)
    if (name == info.name)
      return info.transport;
  throw Error(E::Flag, "comm is '" + name + "'; give auto, shm, gloo or nccl");
}

NonFinite nonFiniteNamed(const std::string &name) {
  if (name == "plan")
    return NonFinite::Plan;
  for (const NonFiniteInfo &info : nonFiniteKinds)
    if (name == info.name)
      return info.kind;
  throw Error(E::StepArgument, "non_finite is '" + name +
                                   "'; give plan, continue, stop or skip");
}

SessionPtr open(const std::string &plan, const std::string &weights,
                const std::string &resume, std::optional<int64_t> seed,
                bool weightsFromRank0, const std::string &rng,
                const std::string &nonFinite, bool graph,
                const std::string &comm, double timeout, int meetingTimeout,
                const std::string &rendezvous) {
  RunOptions run;
  run.weights = weights;
  run.weightsFromRank0 = weightsFromRank0;
  run.seed = seed;
  run.sequentialRandom = rng == "sequential";
  run.nonFinite = nonFiniteNamed(nonFinite);
  run.graph = graph;
  run.checkpoints.resume = resume;
  JoinOptions join;
  join.transport = transportNamed(comm);
  join.patienceSeconds = timeout;
  join.meetingSeconds = meetingTimeout;
  join.rendezvous = rendezvous;
  py::gil_scoped_release release;
  return Session::open(plan, std::move(run), join);
}

/// The name, the number of ranks and the role of each axis.
std::vector<std::tuple<std::string, uint32_t, std::string>>
meshOf(const Session &session) {
  std::vector<std::tuple<std::string, uint32_t, std::string>> mesh;
  for (const auto &dim : session.plan().mesh)
    mesh.emplace_back(dim->name, dim->size, plan::nameOf(dim->role));
  return mesh;
}

/// Added to the error of ranks whose collectives differ: what a script does
/// about it.
constexpr char collectiveAdvice[] =
    "; and make on all ranks alike what "
    "docs/own-loop.md calls collective, as run.save is";

/// Raises errors of the runtime as the classes of fsdp_mlir.errors.
void registerExceptions() {
  py::register_exception_translator([](std::exception_ptr pointer) {
    auto raise = [](const char *name, const auto &error,
                    const std::string &addition = "") {
      py::module_ errors = py::module_::import("fsdp_mlir.errors");
      py::object type = errors.attr(name);
      py::object kind = errors.attr("E")(static_cast<int>(error.kind));
      PyErr_SetObject(type.ptr(),
                      py::make_tuple(kind, error.what() + addition).ptr());
    };
    try {
      if (pointer)
        std::rethrow_exception(pointer);
    } catch (const BatchError &error) {
      raise("BatchError", error);
    } catch (const Disagreement &error) {
      raise("BatchError", error);
    } catch (const Error &error) {
      raise("RunError", error,
            error.kind == E::Collective ? collectiveAdvice : "");
    } catch (const PeerFailure &error) {
      raise("RankFailure", error, error.addition);
    }
  });
}

} // namespace

} // namespace fsdp

PYBIND11_MODULE(fsdp_runtime, module) {
  using namespace fsdp;
  takeArguments();
  registerExceptions();
  module.attr("torch_version") = FSDP_TORCH;
  module.def("membership", [] {
    Membership me = findMembership(processVariables());
    return std::make_pair(me.rank, me.size);
  });
  module.def("open", &fsdp::open, py::kw_only(), py::arg("plan"),
             py::arg("weights"), py::arg("resume"), py::arg("seed"),
             py::arg("weights_from_rank0"), py::arg("rng"),
             py::arg("non_finite"), py::arg("cuda_graph"), py::arg("comm"),
             py::arg("timeout"), py::arg("meeting_timeout"),
             py::arg("rendezvous"));
  py::class_<Session, SessionPtr>(module, "Session")
      .def("step", &fsdp::step)
      .def("evaluate", &fsdp::evaluate)
      .def("metrics", &metrics)
      .def("states", &states)
      .def("whole", &whole)
      .def("put",
           [](const SessionPtr &session, const py::dict &given) {
             NamedTensors tensors = toBatch(given);
             unlocked(session, [&] { session->put(tensors); });
           })
      .def("mean",
           [](const SessionPtr &session, std::vector<double> values) {
             return unlocked(session, [&] { return session->mean(values); });
           })
      .def("barrier",
           [](const SessionPtr &session) {
             unlocked(session, [&] { session->barrier(); });
           })
      .def("save",
           [](const SessionPtr &session, const std::string &path) {
             unlocked(session, [&] { session->save(path); });
           })
      .def("checkpoint",
           [](const SessionPtr &session, const std::string &folder,
              uint64_t keep) {
             return unlocked(session,
                             [&] { return session->checkpoint(folder, keep); });
           })
      .def("leave", &Session::leave)
      .def("close", &Session::close)
      .def_property_readonly("rates", &Session::learningRates)
      .def("set_rates", &Session::setLearningRates)
      .def_property_readonly("rank", &Session::rank)
      .def_property_readonly("size", &Session::size)
      .def_property("steps", &Session::steps, &Session::setSteps)
      .def_property_readonly("notes", &Session::notes)
      .def_property_readonly("transport", &Session::transport)
      .def_property_readonly("mesh", &meshOf);
}
