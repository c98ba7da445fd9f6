// PyTorch's wheel exports Gloo's symbols, but ships none of its headers. This
// folder declares the few types that ProcessGroupGloo.hpp of PyTorch 2.11
// names, as far as it names them; nothing here is ever constructed by this
// project.
#pragma once
