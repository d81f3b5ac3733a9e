# fairseq_rope for CPUs, at the tested versions. CI has no Docker and does not build this file.
#
#   docker build -t fairseq_rope .
#   docker run --rm --init fairseq_rope                               # the demo
#   docker run --rm --init -i -v "$PWD:/own" fairseq_rope scripts/translate.sh /own/RUN <input >output
FROM python:3.11.7-slim-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
# PyTorch's own index has builds without CUDA, which are gigabytes smaller (2.13.0+cpu; pip prefers it to 2.13.0).
# PyTorch's page "Get started" names it: docker build --build-arg TORCH_INDEX=ADDRESS -t fairseq_rope .
ARG TORCH_INDEX=
ENV PIP_EXTRA_INDEX_URL=$TORCH_INDEX PIP_NO_CACHE_DIR=1
WORKDIR /fairseq_rope
COPY . .
RUN scripts/install.sh

# the same folder without the compiler
FROM python:3.11.7-slim-bookworm
RUN useradd --uid 1000 --create-home reader && install -d -o reader /fairseq_rope/runs
WORKDIR /fairseq_rope
COPY --from=build /fairseq_rope .
USER 1000
CMD ["scripts/demo.sh"]
