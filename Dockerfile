# The steps of a newcomer on a bare Debian 12:
#   docker build -t syntorch .
#   docker run --rm -v "$PWD:/out" syntorch inference --tp 2 --visualize_trace --out_dir /out
FROM debian:12
WORKDIR /opt/syntorch
COPY dev ./
RUN ./dev setup && rm -rf /var/lib/apt/lists/*
COPY . .
RUN ./dev build
ENTRYPOINT ["/opt/syntorch/dev"]
CMD ["inference", "--tp", "2"]
