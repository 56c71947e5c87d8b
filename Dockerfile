# Everything, built as on a bare Debian 12:
#   docker build -t syntorch .
#   docker run --rm -v "$PWD:/out" --user "$(id -u):$(id -g)" syntorch \
#       pretrain --model-name gpt2 --num-gpus 2 --max-steps 10 --enable-tracing
# Programs run in /out, so that what they write without being told where (outputs/, checkpoints/)
# is in the caller's folder, and with --user is the caller's.
FROM debian:12
WORKDIR /opt/syntorch
COPY dev ./
RUN ./dev setup && rm -rf /var/lib/apt/lists/*
COPY . .
# Readable for whoever runs them, whatever the umask of the copied files.
RUN chmod -R a+rX . && ./dev build
WORKDIR /out
ENTRYPOINT ["/opt/syntorch/dev"]
CMD ["inference", "--tp", "2"]
