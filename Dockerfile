# Two images of this tree, from Debian's packages alone: "ckpt", ckptd and the commands; "train", with ckpt-train beside them.
#   docker build --target ckpt -t ckpt .
#   docker build --target train -t train .
FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
	build-essential cmake dpkg-dev file groff-base ninja-build pkg-config python3 \
	libcurl4-openssl-dev libfabric-dev libinih-dev libjansson-dev libmicrohttpd-dev libsqlite3-dev libssl-dev libsystemd-dev \
	liburing-dev libxxhash-dev libzstd-dev
COPY . /src
RUN cmake -S /src -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCKPT_TESTS=OFF && cmake --build /build
RUN cpack -G DEB --config /build/CPackConfig.cmake -B /packages

FROM debian:12 AS installed
COPY --from=build /packages/ckpt_*.deb /packages/ckptd_*.deb /packages/libckpt0_*.deb /packages/
RUN apt-get update && apt-get install -y --no-install-recommends /packages/*.deb && rm -rf /packages /var/lib/apt/lists/*
# Whoever starts it says as whom: the user of the ranks. It writes to what is mounted, and nowhere else.
USER 1000:1000

FROM installed AS train
COPY --from=build /build/bin/ckpt-train /usr/bin/ckpt-train

FROM installed AS ckpt
CMD ["ckptd"]
