"""Writes docs/results-operators.md: streaming operators tuned from an empty database with the default budget, beside their bounds.
Run: build/env/bin/python docs/operator_results.py [ATALLA_TUNE]"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

# Machine, operator, shape and arguments, packets that upstream publishes for the same kernel on its functional simulator.
CALLS = [
    ("ax01", "relu", "65536", "", None),
    ("ax01", "relu", "262144", "", None),
    ("ax01", "add", "65536,65536", "", None),
    ("ax01", "gelu", "65536", "", None),
    ("ax01", "permute", "8x128x12x64", "--dims 0,2,1,3", None),
    ("ax01", "slice", "512x512", "--dim 0 --start 64 --end 320", None),
    ("ax01", "slice", "512x512", "--dim 1 --start 64 --end 320", None),
    ("ax01", "cat", "256x256,256x256", "", None),
    ("ax01", "cat", "256x100,256x156", "--dim 1", None),
    ("ax01", "pad", "256x256", "--pad=-1,-1,-1,-1", None),
    ("ax01", "pad", "1x64x56x56", "--pad 1,1,1,1", None),
    ("ax01", "slice", "128x1536", "--dim 1 --start 768", None),
    ("ax01", "permute", "64x64x32", "--dims 1,0,2", None),
    ("ax01", "roll", "256x256", "--shifts 3 --dims 0", None),
    ("ax01", "expand", "1x512", "--size 256,512", None),
    ("ax01", "expand", "256x1", "--size 256,512", None),
    ("ax01", "transpose", "512x256", "--dim0 0 --dim1 1", None),
    ("ax01", "transpose", "1024x1024", "--dim0 0 --dim1 1", None),
    ("ax01", "permute", "1x128x28x28", "--dims 0,2,3,1", None),
    ("ax01", "permute", "197x768", "--dims 1,0", None),
    ("ax01", "slice", "512x512", "--dim 1 --step 2 --exact false", None),
    ("ax01", "stack", "256x256,256x256", "--dim 2 --exact false", None),
    ("ax01", "softmax", "1024x128", "", None),
    ("ax01", "softmax", "128x512", "", None),
    ("ax01", "softmax", "256x1024", "", None),
    ("ax01", "softmax", "8x128x256", "--dim 1", None),
    ("ax01", "layer_norm", "512x768,768,768", "", None),
    ("ax01", "rms_norm", "1024x768,768", "", None),
    ("ax01", "softmax", "128x2048", "", None),
    ("ax01", "layer_norm", "128x2048,2048,2048", "", None),
    ("ax01", "layer_norm", "64x4096,4096,4096", "", None),
    ("ax01", "rms_norm", "128x2048,2048", "", None),
    ("ax01", "rms_norm", "64x4096,4096", "", None),
    ("ax01", "group_norm", "4x64x28x28,64,64", "--num-groups 8", None),
    ("ax01", "batch_norm", "4x64x28x28,64,64,64,64", "", None),
    ("ax01", "batch_norm", "4x64x56x56,64,64,64,64", "", None),
    ("ax01", "mul", "512x768,512x1", "", None),
    ("ax01", "mul", "4x64x28x28,1x64x1x1", "", None),
    ("ax01", "mul", "4x64x56x56,1x64x1x1", "", None),
    ("ax01", "mul", "1x32x8x32,1x32x1x32", "", None),
    ("ax01", "mul", "1x128x12x64,1x128x1x64", "", None),
    ("ax01", "mul", "512x4096,4096", "", None),
    ("ax01", "sum", "512x1024", "--dim 1", None),
    ("ax01", "sum", "512x1024", "--dim 0", None),
    ("ax01", "amax", "512x1024", "--dim 1", None),
    ("ax01", "max_pool2d", "1x112x112x64", "--kernel-size 3 --stride 2 --padding 1 --layout nhwc", None),
    ("ax01", "max_pool2d", "1x64x56x56", "--kernel-size 3 --stride 2", None),
    ("ax01", "avg_pool2d", "1x64x56x56", "--kernel-size 2 --stride 2", None),
    ("fsim", "relu", "1024", "", 243),
    ("fsim", "softmax", "1x32", "", 21),
]

HEAD = """# Where streaming operators stand

Written by `docs/operator_results.py`, which runs `./atalla tune --op OPERATOR --shape SHAPE` with an empty database and the default budget
of 32 simulated schedules for each. Simulated cycles are exact; on `fsim` a cycle is a packet. Every winner was verified bit for bit against
the unoptimized program. The bound is that of [bounds.md](bounds.md), with the resource that decides it. *Upstream* are the packets
that its functional simulator is published to need, one operation a packet; it publishes no cycles for these operators.

| machine | operator | shape | cycles | lower bound | share | bound by | upstream |
|---|---|---|---|---|---|---|---|
"""

TAIL = """
## What binds

* **Elementwise and data movement** are bound by DRAM. What is lost at 64 K elements is the cold start, about 1,300 cycles of
  instruction misses, and the change between reading and writing: with all four engines on one side at a time, each
  change costs about 40 cycles of every 300. An operator of one input computes nearly as long as its transfers take, so the loads of the next block
  start as late as that allows. Of the 11,266 cycles of `relu` of 64 K elements, 1,695 are gone when the first result leaves; from there on 30 transfers of 8 KB follow each
  other, each 300 cycles for its 256 beats, and the last block is computed between two of them. Loads and results on pads of their own run at the same time, but DRAM
  prefers writes, loads take twice as long, and blocks that share a bank open its rows in turns. Blocks that lie in two pages of the DRAM keep both bank groups busy; with 8 KB of neighbouring
  addresses under way there is half the rate. Copies that pass through start half of the pads behind the others ([codegen](codegen.md#transfers)), which leaves 257 cycles for 256
  beats, and pieces that all come whole do so before any leaves: `slice` of 256 rows of 512 took 20,310 cycles, `roll` 11,720. Kernels that compute do not gain by it: with loads in halves, a turn of the loop apart, `relu` of 64 K elements takes 11,184 cycles
  (11,259), but `add` 17,144 (15,857); with results in halves, too, which leave from inside the next block's loop, 12,142, since a block of 4,096 elements takes 572 cycles to compute with what is around its loop, and the rows
  that it needs have come when a result that waits for its engine can leave. All 65,536 elements in the pads at once take 12,009: transfers of loads and results follow each other without a gap in the middle (547 cycles a pair of 512 beats), but
  at the start three groups come ahead and at the end results wait for the lanes; other distances of the groups, and more of them in front, take 11,649 to 13,583.
* **What is left over** is dear: of the 10,559 cycles of `roll` of 256 x 256 by 3 rows, 1,800 bring and take the last rows and the run that comes to the front, ten
  transfers each way, whose code runs once and is fetched while others move. What one transfer moves is in one pad. Longer runs than 1,024 elements are rows of that many; those that are not whole turns of the pads are a piece of their own where the search gives pads several rows of a page (`turn`).
* **Rows that begin inside a beat** take three beats of the bus for every 64 bytes instead of two; no program whose elements keep their lanes takes fewer than their [bound](bounds.md#data-movement)
  counts. `cat` of 100 and 156 columns and an image of 254 x 254 out of one of 256 x 256 are cut so
  that one side begins at beats, which leaves five beats for four, and the last vectors of rows, which are not whole, are pieces of their own: vectors that are not all
  whole go one at a time. Each piece has first transfers and last ones. Of images of 56 x 56 padded by 1 every row begins inside a beat on both sides; the two elements of the constant that lie between two rows leave with the last
  vector of the first one, whose lanes behind the row are filled once (61,919 cycles as pieces of their own; 4x64x28x28 61,790 instead of 77,844, 1x256x14x14 21,030 instead of 50,283). Of the 55,072 cycles 37,190 are beats; what is lost are
  pads whose planes lie in one bank group, 280 beats in 340 to 390 cycles. Slower were planes of the pads four apart, which are in both bank groups (54,722 at 16 planes a tile, 99,756 at four), and all rows in the pads at once (57,228), whose
  lanes are filled before the first load.
* **Pages of the DRAM** decide where the pads' transfers run beside each other: four pads in one page have half the rate. Runs of up to 32 vectors are therefore moved in columns of vectors, of which a pad may have whole ones,
  and each of several short planes lies in a pad of its own.
* **expand** of a row brings as many copies as a tile holds, whose transfers are then repeated. That of a column is the pointwise kernel without an operator, whose values are spread
  over lanes in one loop of straight code for each block; where rows are 4 KB long the transfers of all pads stay in one bank group of the DRAM, at half the rate (128 x 1 to 128 x 2048: 50 %).
  The numbers of the next block come in front of the last group of results, behind which the code would stand still and the next block's results would wait (14,486 cycles of 256 x 1 to 256 x 512). What is left of
  1,250 cycles a block of 1,024 beats are groups that all pads start and end together.
* **Operands without an inner or outer dimension**, such as rotary embeddings have, are in blocks of several planes of whole rows, so that transfers are as long as those of equal shapes;
  a long row that all planes share is cut into rows of its own. Numbers of rows beside them still take a plane at a time. Of the 2,836 cycles of 32 x 8 x 32 28 % are fetches of
  code and as many waits for engines; the draft takes one block of 128 x 12 x 64 for slower than four, though it takes 17,895 cycles (`--effort exhaustive`) instead of 21,085.
* **Orders that part neighbours** go through the array: 32 rows of a block are its weights, the rows of the identity, which stay in registers, are the product's. A block takes
  32 weights, 32 rows and the 31 cycles between them, 97 packets and some 20 cycles for the first sum, where DRAM takes 134; loads of four blocks are one transfer a pad, and so are results, a group of which leaves
  in each turn of the innermost loop. What is left are engines: a load and a result of one pad follow each other, and each begins with 40 cycles without data. Dimensions that are no multiples of 32 have a last
  block that begins earlier, so that all are whole; it is at another distance, so that each block has transfers of its own, of eight rows for a pad (197 x 768, 28 x 28 and 14 x 14 images). A row of an image of 56 x 56 in
  each of 64 channels is 64 bytes of 6 KB: DRAM opens a page for every row.
* **Single elements** that come from places a few elements apart, or go there, are products of rows with a matrix of zeros and ones. `slice` by steps of 2 reads two beats for each that it writes, half of
  them for nothing, so that it could reach 66 % of its bound; each tile loads the matrix anew, and its first rows wait for it. Of three channels each row
  is three products, and rows of 8 places are parts of beats. Unless `--exact false` says that values are finite they go one at a time, each a beat of the bus in and one out: 4.3 cycles an element.
* **softmax, layer_norm and rms_norm** overlap rows. Short rows follow each other at one distance, eight rows of 128 in the 168 cycles that their
  lanes take, and each loads the weights for itself where that makes the loop shorter; what is lost are the idle stages at both ends of a block, the first transfers and the last ones, and transfers that walk
  through one bank group of the DRAM at a time. Whether long rows are weights of the array that one row of ones sums, and whether their
  steps wait in registers or in the pads, the search decides; a value in a register must not live longer than an iteration takes, so rows of
  12 vectors and more overlap where their steps wait in the pads: a row of 768 of layer_norm follows the one before after the 216 cycles that the multiplier
  takes. Rows of more than 36 vectors make too many values and too much code for that: their passes are loops, which a skewed loop over rows makes
  one, each pass on another row, where there are three passes and whole vectors. What is left there is the end of a row: its loop drains, and the next one fills, in blocks of
  their own that do not overlap. Of two passes (rms_norm), and of rows that end inside a vector, they are loops one after the other.
* **softmax along another axis** has no reductions; a quarter of its cycles are latency of the running maxima and sums.
* **group_norm** of channels that end inside vectors takes a group as one row of vectors, with rows for the weights and biases of each vector that are made
  once, beside each other, each in a pad of its own (100,669 cycles one after the other). Tiles of up to 32 vectors are weights of the array. A square reads one register twice, which costs two cycles of a bank each; a loop that fills a
  tile waits for the array, and a group's transfers wait for each other where they start. Of 4 x 64 x 28 x 28 issue is busy in 80.6 % of the cycles, 77,236 packets whose slots are half full, since each of the three passes
  loads and stores rows, two a packet; rows of weights and biases take 8,000 cycles before the first group. Other groups are summed a channel at a time, which waits for the
  sums and for the transfers of one group at a time.
* **Numbers of rows**, such as batch_norm's channels, are spread over vectors of equal lanes first, so that the rows are a loop, or read as single values, which
  pays where one operation reads them: `mul` of 512x768 by 512x1 takes 65,522 cycles, 67,915 otherwise. Their transfers start behind those of blocks, in which order ever operands
  are given. What lane operations
  compute of inputs along one dimension, or of single numbers, is made once and waits in the pads (`generators/pointwise_parts.cpp`): `div` of 512x768 by 512x1 or 1x768 takes
  690,000 cycles, a third of what `div` by 512x768 takes, and 59 % of its bound; conditions of the divisor do not wait and are made beside the elements.
* **Numbers of rows that end inside vectors**, such as channels of images of 28 x 28 or 14 x 14, or that are longer than 1,024 elements, such as those of 56 x 56 images, meet a run of all rows (`generators/joined_rows.cpp`), which lies in
  memory as in the pads: blocks and transfers are those of equal shapes. Each vector of the run has elements of one row or of two, and vectors of numbers are made for
  both, once for all images. Straight-line code takes chunks of the run; vectors beside each other that are of one row in every chunk share a vector of numbers, so that chunks of
  7 vectors of 28 x 28 have 3. All numbers are made in one loop, each in a pad of its own, 672 vectors of three numbers in 2,741 cycles. batch_norm took 73,006 cycles with rows apart, whose last
  half was a transfer of its own; of the 58,871 cycles, 6,300 are gone when the first block is computed, two fifths of them fetches of code, 28 vectors take 195 cycles where the adder needs 168, and
  each of 28 blocks costs some 200. Parts of pads that no number of transfers of 17 rows or more divides are slower (blocks of 392 vectors: 67,449). `mul` by numbers of channels took 50,384 cycles with rows apart. Of 4 x 64 x 56 x 56, whose rows of 98 vectors
  come in parts that overlap where they are apart, `mul` by numbers of channels takes 128,830 cycles (242,439 apart) and batch_norm 189,844 (326,757); `mul` of 512x1536 by 512x1 takes 128,006 (159,901). Shorter rows of whole vectors stay apart: as a run `mul` of 512x768 by 512x1 would take
  67,279 cycles instead of 63,897, though batch_norm of 4 x 64 x 32 x 32 would take 66,763 instead of 72,365. A single image
  has the same numbers to make: batch_norm takes 21,638 cycles (24,318 with rows apart), of 1x256x14x14 29,793 (42,236). Numbers whose vectors take more than 220 operations until they repeat,
  such as those of 31 x 33 and three numbers for each plane of 7 x 7, and channels that do not end together in whole vectors have rows apart. Slower were pairs of channels as rows of 49 vectors in straight-line code (75,601: too few turns for
  transfers to start beside them), and first loads in front of the loops that make numbers (59,443).
* **sum** of long rows takes them as weights of the array, 64 cycles for 32 vectors, which is what DRAM takes for them; a row takes 73, and
  the loop stands still while a transfer has not ended.
  **amax** has four running maxima and looks for NaN in a second pass;
  packets are what it is short of.
* **Pooling** of maxima takes four lane operations for each step from an element to the next, since a maximum must let NaN through. The largest of each
  column of a window comes first, and windows beside it share it: with 3 x 3 elements and a stride of 2, six steps a result instead of nine,
  and no program of such steps takes fewer. Tiles of padded images keep their padding in the pads, so that transfers run beside windows.
  Planes are turned by the array before and after. Where a block of an image has just been turned, all its elements are in registers, and the largest along its rows
  is found there, so that elements themselves never pass the pads; the largest of these along columns feeds the turn back as weights. Blocks that are turned are NaN in all
  elements or in none, so that one window of each says it for the windows of its part of a row, and a step takes two operations. 1x64x56x56 takes 67,452 cycles, where
  windows after the turn took 82,790, and 1x64x112x112 with padding 221,628 instead of 314,183: lanes work beside the array in both steps, which still follow each other.
  Issue is 59 % of the cycles, fetches of code and waits for data an eighth each. A plane's rows come
  several in one transfer, each pad bringing planes of its own, and several blocks of planes pass each of the two steps one after the other, whose code fits the
  instruction cache one at a time.
  Means of planes with padding share sums of columns likewise. Those without need no turns: lanes add the rows of a window, and the array its columns. Each pad has a part of the rows, whose transfers walk
  through pages of their own; what is left are rows of 28 elements, which take two or three beats of the bus for the bytes of 1.75, and the change between reading and writing.
  Of the 37,921 cycles of 1x64x56x56, 3,274 are gone when the first load starts, behind the weights and the fill of the lanes that no window sees; a block of 224 rows of results takes 1,857 cycles for 1,544 beats, and 5,966 cycles are fetches of
  code. The 112 elements of two rows are seven whole beats, so that they would be four weight tiles of a product with three sums a row; the product of that size, 1792x28x112, takes 43,030 cycles as gemm has it, most of it in transfers that share a
  bank group.
"""


def main():
    tool = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/atalla-tune"
    rows = []
    for machine, operator, shape, arguments, upstream in CALLS:
        with tempfile.TemporaryDirectory() as folder:
            command = [tool, "--op", operator, "--shape", shape, "--machine", machine, "--json", "--quiet", "--db", f"{folder}/results.db", *arguments.split()]
            run = subprocess.run(command, check=True, capture_output=True, text=True)
        result = json.loads(run.stdout)
        if not result["verified"]:
            raise SystemExit(f"{operator} {shape} on {machine} is not verified")
        what = shape + (f" `{arguments}`" if arguments else "")
        rows.append(f"| {machine} | {operator} | {what} | {result['cycles']:,} | {result['bound_cycles']:,} | {100 * result['bound_share']:.1f} % "
                    f"| {result['bound_by']} | {upstream or ''} |")
        print(rows[-1], flush=True)
    Path(__file__).with_name("results-operators.md").write_text(HEAD + "\n".join(rows) + "\n" + TAIL)


if __name__ == "__main__":
    main()
