#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plait-train --device cuda --decoder nvjpeg as a program: on the stand-ins for CUDA's driver and NVIDIA's libraries, or on the
# first GPU. Usage: train_nvjpeg_test.sh PLAIT_TRAIN [FOLDER with the stand-ins]
. "$(dirname "$0")/train_cuda_run.sh"

# JPEGs that nvJPEG decodes: losses like the processor's, bits that do not depend on ranks; a checkpoint knows no decoder.
on_gpu gpu $few --payload fp32
on_gpu nvjpeg $few --payload fp32 --decoder nvjpeg
follows nvjpeg gpu 2e-2
grep -q '^GPU 0 .*, nvJPEG 1' "$data/nvjpeg.out" || fail "nvjpeg: what it runs on: $(cat "$data/nvjpeg.out")"
grep -q 'centre 0.0, images ahead [0-9.]*, decoding 3.0$' "$data/nvjpeg.out" || fail "memory: $(cat "$data/nvjpeg.out")"
on_gpu nvjpeg_one $few --decoder nvjpeg --reproducible --micro 2
on_gpu nvjpeg_two $few --decoder nvjpeg --reproducible --micro 2 --ranks 2 --in-memory
same nvjpeg_two nvjpeg_one
run tested_nvjpeg --evaluate-only --resume "$data/nvjpeg" --batch 8 || fail "$(tail -3 "$data/tested_nvjpeg.out")"
[ "$(grep -o '[0-9]* images' "$data/tested_nvjpeg.out")" = "21 images" ] || fail "evaluation: $(cat "$data/tested_nvjpeg.out")"
run nvjpeg --resume "$data/nvjpeg" $few --steps 4 && grep -q "nvJPEG 1" "$data/nvjpeg.out" || fail "--resume takes another decoder: $(cat "$data/nvjpeg.out")"
run nvjpeg_on_cpu --device cpu --evaluate-only --resume "$data/nvjpeg" --batch 8 || fail "--device cpu: $(tail -3 "$data/nvjpeg_on_cpu.out")"
run nvjpeg --decoder cpu --resume "$data/nvjpeg" $few --steps 5 --log-every 1 || fail "to the processor's decoder: $(tail -3 "$data/nvjpeg.out")"

# Among its files are PNGs and a broken one: the processor decodes them, which is told once, and counted.
cp -r "$data/images" "$data/odd"
python3 - "$data"/odd/train/* <<'END' || fail "odd files"
import pathlib, struct, sys, zlib
def png(side):
    rows = b''.join(b'\0' + bytes((x * 9 + y * c) % 256 for x in range(side) for c in (1, 3, 5)) for y in range(side))
    chunks = (b'IHDR', struct.pack('>2I5B', side, side, 8, 2, 0, 0, 0)), (b'IDAT', zlib.compress(rows)), (b'IEND', b'')
    return b'\x89PNG\r\n\x1a\n' + b''.join(struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d)) for k, d in chunks)
files = [sorted(pathlib.Path(folder).iterdir())[0] for folder in sys.argv[1:]]
for file in files[:8]:
    file.write_bytes(png(20))
files[8].write_bytes(files[8].read_bytes()[:300])
END
for decoder in cpu nvjpeg; do
    "$train" "$data/odd" $few --micro 4 --threads 1 --data-threads 2 --steps 8 --payload fp32 --evaluate-every 0 --epochs 1 --device cuda --log-every 1 \
        --decoder $decoder --run "$data/odd_$decoder" >"$data/odd_$decoder.out" 2>&1 || fail "odd files: $(tail -3 "$data/odd_$decoder.out")"
    grep -q 'broken files: 1' "$data/odd_$decoder.out" || fail "broken files: $(cat "$data/odd_$decoder.out")"
done
follows odd_nvjpeg odd_cpu 2e-2
[ "$(grep -c 'the processor decodes it, and others that the GPU does not decode: it is a PNG' "$data/odd_nvjpeg.out")" = 1 ] &&
    grep -q 'nvJPEG: the processor decoded [89] images in its place' "$data/odd_nvjpeg.out" || fail "refused: $(cat "$data/odd_nvjpeg.out")"

# Mistakes, and what is missing.
complains 2 '--decoder nvjpeg: .*add --device cuda, or use --decoder cpu' "$data/images" --decoder nvjpeg
complains 2 '--decoder gpu: .*cpu, nvjpeg' "$data/images" --device cuda --decoder gpu
mkdir "$data/no_nvjpeg" && : >"$data/no_nvjpeg/libnvjpeg.so.13" && : >"$data/no_nvjpeg/libnvjpeg.so.12"
LD_LIBRARY_PATH=$data/no_nvjpeg:$LD_LIBRARY_PATH complains 1 "there is no nvJPEG .*/libnvjpeg.so.1.: file too short: pip install .*, or use --decoder cpu" \
    "$data/images" --device cuda --decoder nvjpeg --run "$data/none"
PLAIT_STANDIN_NVJPEG_VERSION=12000 complains 1 'is nvJPEG 12.0.2, and 12.1 or newer is needed: pip install nvidia-nvjpeg, or use --decoder cpu' \
    "$data/images" --device cuda --decoder nvjpeg --run "$data/none"
PLAIT_STANDIN_NVJPEG_CREATE=7 complains 1 '--decoder nvjpeg: nvjpegCreateEx of nvJPEG 13.3.2: status 7: ' "$data/images" --device cuda --decoder nvjpeg --run "$data/none"
[ ! -e "$data/none" ] || fail "a run that cannot begin has left a folder"
