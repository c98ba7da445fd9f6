# The package and its programs on Debian 12, built by the same script as elsewhere.
# No test builds this file: tools/dev, which it calls, is what the tests stand on.
#
#   docker build -t fsdp-mlir .
#   docker run --rm -it --shm-size=1g fsdp-mlir
#
# The slim image is of Debian 12, whose security archive has MLIR 22.
FROM debian:bookworm-slim
WORKDIR /opt/fsdp-mlir
COPY . .
# Debian's packages, .venv with the pinned PyTorch, the programs and the Python extension.
RUN apt-get update -qq && \
    tools/dev build fsdp-opt fsdp-translate fsdp-run fsdp_runtime && \
    rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/fsdp-mlir/build/bin:/opt/fsdp-mlir/.venv/bin:$PATH
CMD ["bash"]
