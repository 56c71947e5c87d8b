# An image with everything built, as on a fresh Debian 12:
#   docker build -t syntorch .
#   docker run --rm -v "$PWD:/out" --user "$(id -u):$(id -g)" syntorch \
#       pretrain --model gpt2 --num-gpus 2 --max-steps 10 --enable-tracing
# Programs run in /out, so that files written to default folders (outputs/, checkpoints/) are in the
# caller's folder and, with --user, belong to the caller.
FROM debian:12
WORKDIR /opt/syntorch
COPY dev ./
RUN ./dev setup && rm -rf /var/lib/apt/lists/*
COPY . .
# Make files readable for every user, whatever the permissions of the copied files.
RUN chmod -R a+rX . && ./dev build
WORKDIR /out
ENTRYPOINT ["/opt/syntorch/dev"]
CMD ["inference", "--tp", "2"]
