#!/usr/bin/env bash
# bench/restore.sh [--dir DIR] [--size MIB] [--rounds N] [--check] [BUILD]: restore against fio's sequential direct read of the
# same files, interleaved, ratios within one round. BUILD is the folder of the programs (build/release/bin).
#
#   same    into the layout in which it was saved      floor 0.90
#   cross   rows to columns, and the reverse           floor 0.60
#   3       4 ranks to 3                               floor 0.60
#   read    our own disk layer alone: what is left for the restore to lose; no floor
#
# fio runs with fixed buffers, its fastest way here. --check: exit 1 when a median is below its floor. DIR (default TMPDIR, then
# /tmp) must be on the storage that is meant, with room for the checkpoint; it is cleaned up.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=${TMPDIR:-/tmp} size=4096 rounds=7 check=0 programs=build/release/bin
while [ $# -gt 0 ]; do
	case $1 in
	--dir) dir=$2; shift ;;
	--size) size=$2; shift ;;
	--rounds) rounds=$2; shift ;;
	--check) check=1 ;;
	-*) echo "usage: bench/restore.sh [--dir DIR] [--size MIB] [--rounds N] [--check] [BUILD]" >&2; exit 2 ;;
	*) programs=$1 ;;
	esac
	shift
done
command -v fio >/dev/null || { echo "bench/restore.sh: fio is not installed"; exit 77; }

store=$(mktemp -d "$dir/ckpt-bench-restore-XXXXXX")
trap 'rm -rf "$store"' EXIT
cols=4096
rows=$((size * 1048576 / 14 / cols)) # 14 bytes: one element of each of the matrices of make_store
"$programs/make_store" "$store" 1 --world 4 --rows $rows --cols $cols >/dev/null
sync -f "$store"
files=$(find "$store" -name '*.safetensors' | sort | paste -sd:)

# Bytes per second.
fio_read() {
	fio --name=read --rw=read --direct=1 --ioengine=io_uring --fixedbufs=1 --bs=8M --iodepth=8 --readonly \
		--filename="$files" --file_service_type=sequential --output-format=json |
		python3 -c 'import json, sys; print(json.load(sys.stdin)["jobs"][0]["read"]["bw_bytes"])'
}

echo "machine: $(lscpu | sed -n 's/^Model name: *//p'), $(nproc) CPUs, Linux $(uname -r), $(findmnt -no FSTYPE -T "$store") at $dir"
echo "checkpoint: $(du -sm "$store" | cut -f1) MiB of 4 ranks; $rounds rounds"
results="$store/results"
for round in $(seq "$rounds"); do
	for layout in same cross 3 read; do
		# fio before and after: its mean stands beside the run, so that a drifting disk does not decide.
		before=$(fio_read)
		ours=$("$programs/bench_restore" "$store" $layout)
		echo "$layout $before $ours $(fio_read)" >>"$results"
	done
done
python3 - "$results" "$check" <<'EOF'
import statistics, sys
floors = {"same": 0.90, "cross": 0.60, "3": 0.60}
runs, low = {}, []
for line in open(sys.argv[1]):
    layout, before, ours, after = line.split()
    runs.setdefault(layout, []).append((float(ours) / ((float(before) + float(after)) / 2), float(ours)))
print("layout  ratio to fio: median (min to max)  GB/s  floor")
for layout, pairs in runs.items():
    ratios = [ratio for ratio, _ in pairs]
    median, floor = statistics.median(ratios), floors.get(layout)
    speed = statistics.median(ours for _, ours in pairs) / 1e9
    print(f"{layout:7} {median:.2f} ({min(ratios):.2f} to {max(ratios):.2f})  {speed:.2f}  {floor or '-'}")
    if floor and median < floor:
        low.append(layout)
if low:
    print(f"below the floor: {', '.join(low)}")
sys.exit(1 if low and sys.argv[2] == "1" else 0)
EOF
