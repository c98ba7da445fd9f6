"""What can go wrong, by kind: runtime/Errors.def in Python. `tools/dev docs` writes it."""

from __future__ import annotations

import enum


class E(enum.Enum):
    """An error's kind. `E(101).identifier` is FSDP-E0101."""

    UNEXPECTED = 1
    OUT_OF_MEMORY = 2
    STOPPED = 3
    FILE_UNREADABLE = 4
    FILE_UNWRITABLE = 5
    INSTALLATION = 6
    PACKAGE_MISSING = 7
    SYSTEM = 8
    FLAG = 101
    FLAGS_DISAGREE = 102
    FLAG_AND_PLAN = 103
    SETTINGS_FILE = 104
    RUN_FOLDER = 105
    ERROR_UNKNOWN = 106
    STEP_FILE = 201
    STEP_ARGUMENT = 202
    STEP_INPUTS = 203
    STEP_RESULT = 204
    NO_GRADIENT = 205
    VALUE_DEPENDENT = 206
    PYTHON_STATE = 207
    CAPTURE_FAILED = 208
    STEP_RAISES = 209
    OPERATOR_REFUSED = 210
    ARCHIVE_VALUE = 211
    DTYPE = 212
    CHANGED_IN_PLACE = 213
    MEMORY_SHARED = 214
    TENSOR_ELSEWHERE = 215
    NAME_TAKEN = 216
    MODEL_WRAPPED = 217
    FIRST_VALUES = 218
    UNITS = 219
    SHARDING = 220
    MESH = 221
    NOT_SUPPORTED = 222
    OPTIMIZER = 223
    OPTIMIZER_STEP = 224
    SCHEDULE = 225
    ACTIVATION_POLICY = 226
    ARCHIVE_DAMAGED = 301
    ARCHIVE_VERSION = 302
    ARCHIVE_CONTENTS = 303
    ARCHIVE_OPERATOR = 304
    IR = 401
    OPTION = 402
    OPTIONS_DISAGREE = 403
    MEMORY_BUDGET = 404
    CLUSTER = 405
    KERNEL_TABLE = 406
    MESH_OPTION = 407
    EXPLAIN = 408
    PASS = 409
    VERIFIER = 410
    PLAN_FILE = 501
    PLAN_VERSION = 502
    PLAN_CONSTRAINT = 503
    PLAN_OPERATOR = 504
    PLAN_ADDRESS = 505
    PLAN_CONTENTS = 506
    ENVIRONMENT = 601
    WORLD_SIZE = 602
    MEETING_PLACE = 603
    PORT_IN_USE = 604
    RANKS_MISSING = 605
    MEETING_FAILED = 606
    RANKS_DIFFER = 607
    SECRET = 608
    SHARED_MEMORY = 609
    PEER_FAILED = 610
    PEER_SILENT = 611
    COLLECTIVE = 612
    DOCTOR = 613
    NETWORK = 614
    PROCESS_ENDED = 615
    DATA_FILE = 701
    DATA_MISSING = 702
    DATA_MISMATCH = 703
    TOO_FEW_SAMPLES = 704
    DATA_CHANGED = 705
    LOADER = 706
    LOADER_SLOW = 707
    RUN_LENGTH = 801
    NON_FINITE = 802
    TRACE_STEPS = 803
    OPERATOR = 804
    BATCH = 805
    RUN_OVER = 806
    RUN_STATE = 807
    HOOK_FAILED = 808
    TRACE = 809
    CHECKPOINT_MISSING = 901
    CHECKPOINT_DAMAGED = 902
    CHECKPOINT_MISMATCH = 903
    CHECKPOINT_FOLDER = 904
    CHECKPOINT_VERSION = 905
    WEIGHTS_FILE = 906
    WEIGHTS_MISMATCH = 907
    IMPORT_SOURCE = 908
    EXPORT_FORM = 909
    GPU_MISSING = 1001
    GPU_MEMORY = 1002
    GPU_PER_RANK = 1003
    NCCL = 1004
    CUDA_CALL = 1005
    GPU_UNSUPPORTED = 1006

    @property
    def identifier(self) -> str:
        return f"FSDP-E{self.value:04}"


# Title, cause and mending, by number.
TEXTS = {
    1: (
        "an error that this project did not foresee",
        "A library, or PyTorch itself, raised an error which no part of this project turned into one of its own. The message has its words.",
        "Where the words name nothing in your control, report it with the command and the plan.",
    ),
    2: (
        "the host has too little memory",
        "An allocation failed, or more memory was asked for than the host has: arenas, shared segments, the order of a shuffled data set, or a copy of the state for a checkpoint.",
        "Use more ranks or a smaller batch, or compile with remat=full or offload=all. `fsdp-opt --fsdp-report` predicts what a rank needs.",
    ),
    3: (
        "the run was told to stop",
        "A signal such as SIGTERM or Ctrl-C ended the run. Where it has a folder of checkpoints it saved its state first.",
        "Go on with --resume auto. Nothing is wrong with the run itself.",
    ),
    4: (
        "a file cannot be opened or read",
        "It is not there, its permissions forbid it, it is no regular file, or it became shorter while it was read.",
        "Check the path that the message names, and who may read it.",
    ),
    5: (
        "a file or folder cannot be written",
        "Its folder is not there, permissions forbid it, it is a folder itself, or the disk is full.",
        "Name a file in a folder that is there and has room.",
    ),
    6: (
        "a part of the installation is missing or of another build",
        "A program or a library of this project was not found beside the others, was built apart from them, or was built for another PyTorch.",
        "Build everything together with `tools/dev build`, or install the package again; FSDP_MLIR_BIN names another folder of programs.",
    ),
    7: (
        "a Python package is not installed",
        "What was asked for needs a package that does not come with this project, such as pyarrow, or PyTorch itself.",
        "Install the package that the message names into the same environment.",
    ),
    8: (
        "the operating system refused a service",
        "A call of the system failed: a process could not be started or watched, no random numbers were there, or /proc could not be read.",
        "The message has the system's reason. In a container, look at its limits of processes and memory.",
    ),
    101: (
        "a flag does not exist, or has a value that it cannot have",
        "A word of the command line, or a key of the --config file, was not understood.",
        "The message has the nearest name, or the form of the value. --help lists what users need, --help-all everything.",
    ),
    102: (
        "flags do not go together",
        "Two flags exclude each other, or one was given without another that it needs.",
        "Drop one of them, or give the one that is missing; the message names both.",
    ),
    103: (
        "a flag asks for what the plan does not have",
        "A plan holds the programs, metrics and data that the step was exported with. The flag needs another one: an evaluation, a metric, data, an update that can be skipped, or a device.",
        "Drop the flag, or export and compile the step with what it needs.",
    ),
    104: (
        "a --config file does not say what the driver can do",
        "It cannot be read, is no TOML, or has a value of another type than its flag takes.",
        "docs/training.md shows a file. The one that a run resolved is in the run's folder.",
    ),
    105: (
        "no report can be made of a folder",
        "The folder is not one that `python -m fsdp_mlir.train` left, or a file in it is missing or damaged.",
        "Name the folder of a run, which has step.plan and run.json in it.",
    ),
    106: (
        "there is no such identifier of an error",
        "--explain takes an identifier as errors print it.",
        "Copy it from the error, as in FSDP-E0106.",
    ),
    201: (
        "a step file cannot be used",
        "There is no such file, it is not Python, it has no function training_step(argv), or that returned something else than a TrainingStep.",
        "See docs/training.md for the form of a step file.",
    ),
    202: (
        "an argument of the Python interface has a value that it cannot have",
        "A class or function of fsdp_mlir was called with a value of another type or range than it takes, or with two that contradict each other.",
        "The message says what to give. docs/api.md has each argument.",
    ),
    203: (
        "the example batches of a step do not fit together",
        "inputs says by examples which batches a step takes. They must be dense tensors of one batch size, with the same names and dtypes in each.",
        "Change inputs as the message says; docs/training.md has batches of several shapes.",
    ),
    204: (
        "loss, metrics or outputs return what a plan cannot give",
        "The loss is a floating-point scalar, a metric is a scalar of the step, and outputs have the sample as dimension 0. Each has a name of its own.",
        "Return the tensor itself, reduced to the shape that the message names.",
    ),
    205: (
        "the loss reaches no trainable parameter",
        "No parameter with requires_grad takes part in the loss, or the optimizer holds none of those that do.",
        "Check that the loss uses the model's output, requires_grad, and the optimizer's parameters.",
    ),
    206: (
        "the step depends on the values of tensors",
        "A plan is one fixed graph. The step repeats a loop as often as values say, decides by them in too many ways, reads one as a Python number, or has a shape that follows from values.",
        "Compute both sides and choose by torch.where, use a mask, or decide before the step.",
    ),
    207: (
        "the step runs Python that changes from step to step",
        "No Python runs while a plan does. A counter, a random number of Python or NumPy, a hook or a cache would have to change between steps.",
        "Keep it in a buffer or an input, change it in tensor code, or leave it out.",
    ),
    208: (
        "the step cannot be captured",
        "PyTorch could not make one graph of the step, for the reason in the message.",
        "Change the line that is named; --traceback shows all that PyTorch says.",
    ),
    209: (
        "the step itself raises an error",
        "The step's own code fails when it runs, with PyTorch alone as well.",
        "Run the step without this project, and mend it there.",
    ),
    210: (
        "the step calls an operator that no plan can call",
        "A plan calls PyTorch's own ATen operators, which read and give tensors. Operators with a body in Python, of a library that is loaded into Python, of higher order, or that draw random numbers without a generator are none.",
        "Write it as plain tensor code, or use the operator that the message names.",
    ),
    211: (
        "the step has a value that an archive cannot hold",
        "An operator has an argument or a result of a type that TorchScript's archives do not have, or that a graph of tensors cannot keep.",
        "Make it a tensor of the wanted dtype; values that do not change belong in the code.",
    ),
    212: (
        "a tensor has a dtype that is not supported here",
        "Some dtypes can be computed with and not trained, summed over ranks, or stored in the file that is asked for.",
        "Convert it; bfloat16, float16 and float32 work everywhere.",
    ),
    213: (
        "the step changes a tensor in place that it may not",
        "Buffers may change in the forward: by in-place operators, or where a tensor of the same shape and dtype, without a gradient, takes their place. So may frozen parameters, in place, which are then buffers. Trained ones change by the optimizer alone.",
        "Change a buffer with copy_, detach() what takes its place, or compute a new tensor.",
    ),
    214: (
        "two tensors of the model share memory without being one",
        "A plan gives each parameter and buffer memory of its own, so a change of one would not change the other.",
        "Register one of them and compute the other in the forward, or assign the same tensor to both names.",
    ),
    215: (
        "the step reads a tensor that is not the model's",
        "Parameters and buffers belong to the plan by their names in the model. A tensor that the step reads from elsewhere has none.",
        "Register it as a parameter or a buffer of the model, and read it as an attribute of its module.",
    ),
    216: (
        "a name is used twice or reserved",
        "A metric has the name of what a run's metrics have themselves, or a parameter or buffer has one that begins with fsdp., as the compiler's do.",
        "Rename the one that the message says.",
    ),
    217: (
        "the model or the optimizer is prepared for eager training",
        "It is wrapped by DDP or FSDP of PyTorch, holds DTensors, has a hook on a gradient, or its step() was replaced: Python that no plan runs.",
        "Give the plain model, and annotate it with fsdp_mlir.fully_shard.",
    ),
    218: (
        "a parameter has no first value",
        "It is on the meta device, on a GPU or fake, and nobody recorded how it is initialised.",
        "Build the step on the CPU, or record the initialisation (docs/training.md); --no-weights exports without values.",
    ),
    219: (
        "fully_shard is applied to the wrong modules",
        "Each module is in one unit, inner ones are annotated before outer ones, and the outermost unit is the model of the step.",
        "Apply fully_shard bottom-up, and call fully_shard(model) last.",
    ),
    220: (
        "a parameter cannot be sharded as it is asked for",
        "It is a scalar, is not contiguous, has a placement that does not divide, or its unit mixes dtypes.",
        "The message says what to change in the tensor or in shard_placement_fn.",
    ),
    221: (
        "a mesh does not describe the ranks",
        "A mesh has each rank once, and a name for each dimension where there are several. All units have the same.",
        "Make it with init_device_mesh, as in (2,) or (2, 4) with mesh_dim_names.",
    ),
    222: (
        "PyTorch has this, and it is not there or has no meaning here",
        "It needs Python, a process group or a collective at run time, or has not been built.",
        "docs/porting.md says for each feature what to use instead.",
    ),
    223: (
        "an optimizer cannot be exported",
        "It holds tensors that are not the model's, has state of earlier steps, hooks, or flags that a plan cannot follow.",
        "Make a new torch.optim optimizer of model.parameters(), without the flag that is named.",
    ),
    224: (
        "the step of an optimizer cannot be followed",
        "An optimizer is captured by running its step() once. It read Python state, raised, or did something that no rule of tensors can say.",
        "Keep the numbers in param_groups or the state; docs/training.md says what an optimizer may do.",
    ),
    225: (
        "a schedule of learning rates cannot be made a table",
        "A schedule is stepped for the whole run when the step is exported. It needs a length, the step's own optimizer, and no losses.",
        "Give epochs or steps; use a scheduler that steps alone, and ChainedScheduler for several.",
    ),
    226: (
        "a policy of activation checkpoints cannot be followed",
        "A checkpoint has use_reentrant=True, or a policy that asks for what is not there.",
        "Use use_reentrant=False; policies save (MUST_SAVE) or recompute.",
    ),
    301: (
        "an archive is damaged, or is none",
        "The file is truncated, altered, or was not written by `python -m fsdp_mlir.export`.",
        "Export again.",
    ),
    302: (
        "an archive is of another version",
        "It was written by another version of this project or of PyTorch.",
        "Export again with the versions that compile it.",
    ),
    303: (
        "an archive contradicts itself",
        "Its description (fsdp.json) and its methods do not say the same step.",
        "Export again. Where it was just exported, report it with the step file.",
    ),
    304: (
        "an archive calls an operator as this PyTorch does not know it",
        "The operator has no schema here, other arguments, or draws from PyTorch's default generator.",
        "Export again with this PyTorch, without the operator that is named.",
    ),
    401: (
        "IR does not parse, or breaks the rules of its dialect",
        "A file of IR, or an archive of it, is not there, or was cut, edited, or written by another version.",
        "The message names the line. docs/dialects.md has each op; make the file again with the step before.",
    ),
    402: (
        "a pipeline's option does not exist, or has a value that it cannot have",
        'A word in --fsdp-pipeline="..." was not understood.',
        "The message has the nearest name or the values there are; docs/options.md lists all.",
    ),
    403: (
        "options of the pipeline do not go together",
        "One option needs another, or excludes it, or does not fit the model.",
        "Drop one of them; docs/options.md says what each needs.",
    ),
    404: (
        "the step does not fit memory-budget-mib",
        "The compiler recomputes, keeps and moves what it may, and the least that is left is more than the budget.",
        "Raise the budget, or use more ranks, a smaller batch, remat=full or offload=all; --fsdp-explain=peak shows what fills it.",
    ),
    405: (
        "a cluster does not exist, or its file does not describe one",
        "cluster= names a preset or a TOML file, and a key of the file is missing, unknown or of the wrong type.",
        "docs/options.md lists the presets and shows a file.",
    ),
    406: (
        "a table of kernels cannot be used",
        "kernel-table= names a file that is damaged, of another version, or was measured on another machine.",
        "Measure it with `fsdp-run --tune FILE` on the machine that trains.",
    ),
    407: (
        "the number of ranks is missing, or differs from the model's mesh",
        "A plan is compiled for its ranks. The option mesh gives them, unless the model describes a mesh of its own.",
        "Give mesh=N, or leave it out where the model has one.",
    ),
    408: (
        "there is nothing of this name to explain",
        "--fsdp-explain takes peak, exposed or the name of a unit of this step.",
        "The message lists the units.",
    ),
    409: (
        "a pass cannot work on this step",
        "The step has what this pass cannot shard, schedule or lower, or a pass that comes before it was left out.",
        "Follow the message; the pipelines run all passes in their order. Where --fsdp-pipeline ends so, report it with the IR.",
    ),
    410: (
        "a phase of the compiler broke what it promises",
        "Between the phases a pass checks the IR by numbered rules (S.. sharded, A.. asynchronous). The number stands in the message, docs/passes.md explains it.",
        "Where the pipeline ends so, report it with the IR; by hand, run the passes in their order.",
    ),
    501: (
        "a file is no plan, or is damaged",
        "It is truncated, altered, or something else.",
        "Make it again with `fsdp-translate --fsdp-to-plan`.",
    ),
    502: (
        "a plan is of another version",
        "Plans are read by the version that wrote them, and run with the PyTorch that the step was captured with.",
        "Export and compile the step again with the programs and the PyTorch that run it.",
    ),
    503: (
        "a plan breaks a rule of the checker",
        "Each plan is checked when it is written and when it is loaded. The message begins with the rule's number (C1 and on), which docs/checker.md explains.",
        "Compile the step again. Where the compiler itself says so, do what the message says, or else report it with the IR.",
    ),
    504: (
        "PyTorch's operator is not the one that the plan calls",
        "An operator is not there, takes other arguments, or gives another type or shape than when the step was compiled.",
        "Export and compile with the PyTorch that runs the plan.",
    ),
    505: (
        "a plan's memory is not what its commands use",
        "A command wrote outside its place, or a value does not fit in it: a defect of the plan or of a kernel.",
        "Lower the step again with this version. If it remains, report it with the plan.",
    ),
    506: (
        "a plan lacks what is asked of it",
        "It has no program of the name that is needed.",
        "Export the step with what the message names, and compile it again.",
    ),
    601: (
        "the variables of a launcher contradict each other",
        "RANK, WORLD_SIZE, MASTER_ADDR and the like, or those of SLURM or MPI, are not numbers, or one is set without the other.",
        "Start by one launcher, or unset what another one left; docs/training.md has the launchers.",
    ),
    602: (
        "the plan is for another number of ranks",
        "A plan is compiled for the ranks of its mesh.",
        "Start as many ranks, or compile it for mesh=N.",
    ),
    603: (
        "the place where ranks meet is not understood",
        "A rendezvous is env://, tcp://HOST:PORT or file:///PATH.",
        "Write it in one of these forms.",
    ),
    604: (
        "the port of the rendezvous is in use",
        "Another run, or another program, listens there.",
        "Choose another one with --rendezvous, --master-port or MASTER_PORT.",
    ),
    605: (
        "ranks did not arrive at the rendezvous",
        "A rank was not started, cannot reach the address, or is slower than --rendezvous-timeout.",
        "Start every rank, and try `fsdp-run --doctor` the same way; it names the host and the interface.",
    ),
    606: (
        "the ranks cannot meet",
        "The rendezvous cannot be served, or was lost while ranks used it.",
        "Check the address and the process of rank 0; `fsdp-run --doctor` names what is wrong.",
    ),
    607: (
        "ranks do not have the same",
        "All ranks run one plan, with one set of flags, versions and seeds. The message names what differs and on which rank.",
        "Give all ranks the same; copy one plan to all hosts.",
    ),
    608: (
        "the run's secret cannot be used",
        "It is too short, other users may read its file, or ranks have different ones.",
        "docs/security.md says how to make one; give all ranks the same.",
    ),
    609: (
        "ranks of one host cannot share memory",
        "They are in different containers or PID namespaces, or /dev/shm is too small.",
        "Drop --comm shm, or give the container more shared memory (--shm-size).",
    ),
    610: (
        "another rank failed or ended",
        "This rank's error follows from that of another one, whose own stands above or on its host.",
        "Look for the first error. Where there is none, the process was killed: look at the kernel's log for want of memory.",
    ),
    611: (
        "another rank did not come to a collective in time",
        "It is stopped, slow, cut off, or waits itself. The message says which, and how long it was waited for.",
        "docs/troubleshooting.md explains each reason; --timeout raises the limit where ranks are only slow.",
    ),
    612: (
        "a collective cannot be done",
        "Ranks launch different transfers, or one is of a dtype that cannot be summed.",
        "Give all ranks the same plan. Where the compiler made it so, report it.",
    ),
    613: (
        "the doctor found what a run would fail by",
        "The problems are named above the error.",
        "Mend each, and run --doctor again.",
    ),
    614: (
        "large packets do not get through",
        "The hosts reach each other, and what is larger than a packet is lost: often an MTU that a switch or tunnel does not carry.",
        "Lower the MTU of the interface, or mend the path; docs/troubleshooting.md.",
    ),
    615: (
        "a process was ended from outside",
        "A rank, or a program that the driver started, ended without an error of its own: by a signal, or with another status than 0. The kernel ends a process where memory runs out.",
        "Look at the kernel's log (dmesg) for the process, and at who sent the signal.",
    ),
    701: (
        "a file of data cannot be read as what it should be",
        "It is damaged, of another format, or has a column of a type that cannot be read.",
        "Write it again; docs/data.md has the formats.",
    ),
    702: (
        "data, or a column of it, is not there",
        "A folder has no files of data, or a file has no column of that name.",
        "Name a column that it has, which the message lists.",
    ),
    703: (
        "data does not fit the step",
        "Its dtype, sample shape, or number of samples differ from those of inputs or between columns.",
        "Convert the data, or export with inputs like it.",
    ),
    704: (
        "there are fewer samples than one batch",
        "A step takes the batch of inputs on each rank, times its micro-batches, and an epoch must have one.",
        "Give more data, a smaller batch or fewer ranks.",
    ),
    705: (
        "a file of data changed since the export",
        "An archive describes files by their sizes and offsets, and does not copy them.",
        "Export again.",
    ),
    706: (
        "a loader failed, or gives other batches than it announced",
        "The loader's own error stands above; or it ended early, has no length where one is needed, or gives batches that no program reads.",
        "Run it alone: `for batch in loader: pass`.",
    ),
    707: (
        "a loader has given nothing for too long",
        "It waits for a worker, a lock or a file system.",
        "Look where it waits; --data-timeout raises the limit.",
    ),
    801: (
        "the length of a run is missing, or not possible",
        "Steps follow from --steps, or from --epochs and the data. A schedule of learning rates bounds them.",
        "Give the one that the message asks for, or export with a longer schedule.",
    ),
    802: (
        "a loss or gradient is not finite",
        "--non-finite stop ended the run at the first such step.",
        "Use a lower learning rate or a warm-up, look for bad data, or leave such steps out with --non-finite skip.",
    ),
    803: (
        "the steps to trace are not those of the run",
        "--trace-steps names steps past its end, or before it resumes.",
        "Name steps that it takes.",
    ),
    804: (
        "a kernel failed while the plan ran",
        "PyTorch's operator raised an error, which the message quotes, with the line of the step that called it.",
        "Often a value out of range in the data, such as an index; run with --no-shuffle to find the sample.",
    ),
    805: (
        "a batch is not what the plan reads",
        "Its names, dtypes or shapes are not those of the export, or differ between ranks. The step was not taken.",
        "Convert the batch as the message says, or export with its shape among inputs.",
    ),
    806: (
        "a run is closed, busy, or ended by an error before",
        "A loop of one's own makes one call at a time, and a run that failed takes no further step.",
        "Load the plan again.",
    ),
    807: (
        "a value does not fit the run's state",
        "Learning rates, or tensors of a state_dict, are not as many, or not of the shape and dtype, that the run has.",
        "Give what the run's own state_dict() has.",
    ),
    808: (
        "after_training of the step file failed",
        "The run itself is whole. The function that the step file runs behind it raised the error in the message.",
        "Mend the function; --from-cache runs need not train again.",
    ),
    809: (
        "a trace cannot be made of this run",
        "A rank sent half of its part.",
        "Run it again; fsdp-translate --plan-to-trace shows what is predicted.",
    ),
    901: (
        "there is no such checkpoint",
        "The path is not the folder of a checkpoint or of a run's checkpoints, or it has no manifest.",
        "Name the folder that --checkpoint-dir gave.",
    ),
    902: (
        "a checkpoint's bytes are not those that were written",
        "A file is truncated or altered; each block is checked by a hash.",
        "Take the checkpoint before it; `python -m fsdp_mlir.checkpoint verify` names all damage.",
    ),
    903: (
        "a checkpoint does not fit",
        "It is of another model, another optimizer, or other shapes and dtypes.",
        "Resume with the model and the optimizer that wrote it.",
    ),
    904: (
        "a folder of checkpoints cannot be used",
        "Another run writes into it, it has checkpoints of an earlier run, is there already, or not all hosts see it.",
        "Go on with --resume auto, or name another folder that all hosts share.",
    ),
    905: (
        "a checkpoint is of another version",
        "Its manifest was written by a version that this program does not read.",
        "Use the version that wrote it, and export the weights from there.",
    ),
    906: (
        "a file of weights cannot be read",
        "It is no safetensors file, no file of tensors alone, or an index that names what is not there.",
        "Save model.state_dict() with safetensors or torch.save.",
    ),
    907: (
        "weights do not fit the model",
        "Names or shapes differ.",
        "Give the whole state_dict() of this model, of the same sizes.",
    ),
    908: (
        "a checkpoint of PyTorch cannot be imported",
        "The file holds no state_dict(), lacks tensors or optimizer state of the step, or says two things at once.",
        "Save the model's and the optimizer's state_dict() whole, and name the keys with --model-key and --optimizer-key.",
    ),
    909: (
        "a checkpoint cannot be written in another form",
        "The optimizer's state_dict() is not known, or PyTorch could not write the file.",
        "Leave the optimizer out with --no-optimizer, or give --archive of the run.",
    ),
    1001: (
        "there is no GPU, driver or CUDA for this plan",
        "The plan was compiled with device=cuda, and this machine or build has none.",
        "Run it where there is one, or compile it for device=cpu; nvidia-smi and CUDA_VISIBLE_DEVICES say what is shown.",
    ),
    1002: (
        "the device has too little memory",
        "The arena, a kernel's scratch or pinned host memory cannot be allocated.",
        "Use more ranks, remat=full, offload=all or a smaller batch; for pinned memory pin-memory=false.",
    ),
    1003: (
        "ranks and GPUs are not as many",
        "A rank that is a process needs a GPU of its own.",
        "Start as many ranks on each host as it has GPUs, or share them with --threads.",
    ),
    1004: (
        "NCCL cannot be used, or failed",
        "It is missing, too old, loaded twice, differs between hosts, or reported an error.",
        "Use the one that PyTorch installs; NCCL_DEBUG=WARN has it print more.",
    ),
    1005: (
        "a call of CUDA failed",
        "CUDA's own words stand in the message. An error inside a kernel is told by a later call.",
        "CUDA_LAUNCH_BLOCKING=1 and compute-sanitizer name the kernel.",
    ),
    1006: (
        "this is not there on GPUs, or only there",
        "Some features are for one kind of device so far.",
        "Compile the plan for the other device, or drop the flag that is named.",
    ),
}
