# An image with the installed programs, as on a fresh Debian 12:
#   docker build -t syntorch .
#   docker run --rm -v "$PWD:/out" --user "$(id -u):$(id -g)" syntorch \
#       pretrain --model gpt2 --num-gpus 2 --max-steps 10 --enable-tracing
# Programs run in /out, so that files written to default folders (outputs/, checkpoints/) are in the
# caller's folder and, with --user, belong to the caller.
FROM debian:12 AS build
WORKDIR /opt/syntorch
COPY dev ./
RUN ./dev setup && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cmake -B build -G Ninja -D SYN_TESTS=OFF -D SYN_PYTHON=OFF && cmake --build build && \
    DESTDIR=/installed cmake --install build

FROM debian:12
RUN apt-get update && apt-get install -y --no-install-recommends \
    libopenblas0-pthread libopenmpi3 openmpi-bin libcgraph6 graphviz fonts-dejavu-core \
    libprotobuf-c1 libpcre2-8-0 libutf8proc2 zlib1g && rm -rf /var/lib/apt/lists/*
COPY --from=build /installed/usr/local /usr/local
COPY dev /opt/syntorch/
# ./dev runs the programs in its build folder, without building them if there are no sources. Files
# are readable for every user, whatever the permissions of the copied files.
RUN chmod a+rx /opt/syntorch/dev && mkdir /opt/syntorch/build && cd /opt/syntorch/build && \
    touch .built && ln -s /usr/local/bin/syntorch syntorch && ln -s syntorch inference && \
    ln -s syntorch pretrain && ln -s syntorch synth && ln -s syntorch calibrate
WORKDIR /out
ENTRYPOINT ["/opt/syntorch/dev"]
CMD ["inference", "--tp", "2"]
