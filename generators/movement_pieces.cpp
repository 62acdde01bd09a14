#include "generators/movement_pieces.h"

#include <algorithm>

namespace atalla {

namespace {

// Longer runs are cut into rows of this many elements, fewer where the pads lack room.
int64_t most_run(const std::vector<MovedBox> &boxes, const Machine &machine) {
    constexpr int64_t longest = 1024;
    const int64_t rows = machine.pad.count * machine.pad_rows() / (8 * static_cast<int64_t>(std::max<size_t>(1, boxes.size())));
    int64_t run = longest;
    while (run > lanes && run / lanes > rows) run /= 2;
    return run;
}

// Where a run of rows is cut: its first elements up to a beat on one side, and its last ones, which end inside a vector.
struct Cut {
    int64_t head = 0;
    bool tail = false;
};
// A row of a transfer that begins inside a beat takes three beats instead of two, and vectors that are not all whole go one
// at a time, where others of many rows share a transfer. Each piece has transfers to begin and to wait for. Where rows
// are in different pages of the DRAM, each vector that they share transfers of opens these pages again.
Cut best_cut(const MovedPiece &start, int64_t run, const std::vector<MovedBox::Dim> &dims) {
    constexpr int64_t beat = 16, cycles_of_piece = 150, cycles_of_transfer = 15, cycles_of_page = 24, page = 4096;
    if ((start.step == 0 && start.box.input >= 0) || run <= lanes) return {};
    int64_t rows = 1;
    bool from_beats = true, to_beats = true;
    const int64_t apart = dims.empty() ? 0 : std::min(dims[0].from, page) + std::min(dims[0].to, page);
    for (const MovedBox::Dim &dim : dims) {
        rows *= dim.extent;
        from_beats = from_beats && dim.from % beat == 0;
        to_beats = to_beats && dim.to % beat == 0;
    }
    const auto cycles = [&](const Cut &cut) {
        const auto row = [&](bool beats, int64_t at) { return beats && (at + cut.head) % beat == 0 ? 2 : 3; };
        const int64_t inner = run - cut.head, vectors = (cut.head > 0 ? 1 : 0) + (inner + lanes - 1) / lanes;
        const int64_t whole = cut.tail || inner % lanes == 0 ? 0 : rows * vectors * cycles_of_transfer,
                      pages = cut.tail && inner / lanes < lanes ? rows * (vectors - 1) * apart * cycles_of_page / page : 0;
        return pages + vectors * rows * (row(from_beats, start.box.from) + row(to_beats, start.box.to)) + whole +
               cycles_of_piece * ((cut.head > 0 ? 1 : 0) + (cut.tail ? 1 : 0));
    };
    Cut best;
    for (const int64_t at : {int64_t{0}, start.box.to, start.box.to + beat, start.box.from, start.box.from + beat})
        for (const bool tail : {false, true}) {
            const Cut cut = {(lanes - at % lanes) % lanes, tail};
            if (tail && (run - cut.head) % lanes == 0) continue;
            if (cycles(cut) < cycles(best)) best = cut;
        }
    return best;
}

// So many of `extent`, at most `most`: whole rounds of the pads, equally many each time where that takes half of them or
// more.
int64_t tile_of(int64_t extent, int64_t most, int64_t turn) {
    constexpr int64_t round = 4;
    if (turn > 1 && extent <= most && extent > turn) return extent / turn * turn;
    if (extent <= most || most < round) return std::min(extent, most);
    for (int64_t tile = most / round * round; 2 * tile > most; tile -= round)
        if (extent % tile == 0) return tile;
    return most / round * round;
}

// A dimension in tiles, as the planes of a piece, and what is left over.
template <class Take>
void in_tiles(MovedPiece piece, std::vector<MovedBox::Dim> loops, const MovedBox::Dim &dim, int64_t tile, const Take &take) {
    const int64_t whole = dim.extent / tile, rest = dim.extent % tile;
    piece.planes = {tile, dim.from, dim.to};
    std::vector<MovedBox::Dim> around = loops;
    if (whole > 1) around.insert(around.begin(), {whole, dim.from * tile, dim.to * tile});
    take(piece, around);
    if (rest == 0) return;
    piece.box.from += whole * tile * dim.from;
    piece.box.to += whole * tile * dim.to;
    piece.planes.extent = rest;
    take(piece, std::move(loops));
}

// The innermost dimension that fills a transfer, or the longest, of those that are read row by row, or of a constant,
// becomes the rows of a tile. Where a run repeats and nothing else is read, a tile holds some of its copies. What is left
// of whole turns of all pads, of so many vectors, is a piece of its own.
void append(std::vector<MovedPiece> &list, MovedPiece piece, std::vector<MovedBox::Dim> dims, int64_t vectors, int64_t turn) {
    const int64_t most = std::max<int64_t>(1, vectors / tiles_of(piece.length()));
    const bool once =
        piece.box.input >= 0 && std::any_of(dims.begin(), dims.end(), [](const MovedBox::Dim &dim) { return dim.from != 0; });
    size_t best = dims.size();
    for (size_t d = 0; d < dims.size(); d++) {
        if (dims[d].from == 0 && once) continue;
        if (best == dims.size() || std::min<int64_t>(dims[d].extent, lanes) > std::min<int64_t>(dims[best].extent, lanes))
            best = d;
    }
    if (best == dims.size()) {
        piece.loops = std::move(dims);
        list.push_back(std::move(piece));
        return;
    }
    const MovedBox::Dim rows = dims[best];
    dims.erase(dims.begin() + static_cast<ptrdiff_t>(best));
    in_tiles(piece, dims, rows, tile_of(rows.extent, most, turn / tiles_of(piece.length())),
             [&](MovedPiece part, std::vector<MovedBox::Dim> loops) {
                 part.rows = part.planes;
                 part.planes = {1, 0, 0};
                 // Several short planes, each in a pad: transfers of one walk through a page or two of the DRAM alone.
                 const auto next =
                     std::find_if(loops.begin(), loops.end(), [&](const MovedBox::Dim &dim) { return dim.from != 0 || !once; });
                 if (part.rows.extent < rows.extent || most / rows.extent < 2 || next == loops.end()) {
                     part.loops = std::move(loops);
                     list.push_back(std::move(part));
                     return;
                 }
                 const MovedBox::Dim planes = *next;
                 loops.erase(next);
                 in_tiles(part, loops, planes, tile_of(planes.extent, most / rows.extent, 0),
                          [&](MovedPiece of_planes, std::vector<MovedBox::Dim> around) {
                              of_planes.loops = std::move(around);
                              list.push_back(std::move(of_planes));
                          });
             });
}

}  // namespace

std::vector<MovedPiece> pieces_of(const std::vector<MovedBox> &boxes, const Machine &machine, const Point &point) {
    const int64_t most = most_run(boxes, machine), vectors = point["rows"];
    const int64_t turn = point["turn"] > MovedPiece::of_run ? point["turn"] * point["pads"] : 0;
    std::vector<MovedPiece> list;
    for (const MovedBox &box : boxes) {
        std::vector<MovedBox::Dim> dims = box.dims;
        int64_t run = 1;
        // Neighbours in the result that are none in the input are moved one by one.
        MovedPiece start{box, 1, 0, 0, {}, {}, {}};
        start.box.dims.clear();
        if (!dims.empty() && dims[0].to == 1 && (box.input < 0 || dims[0].from == 1)) {
            run = dims[0].extent;
            start.step = dims[0].from;
            dims.erase(dims.begin());
        }
        const auto take = [&](int64_t length) {
            if (length == 0) return;
            start.run = length;
            append(list, start, dims, vectors, turn);
            start.box.from += length * start.step;
            start.box.to += length;
            run -= length;
        };
        const Cut cut = best_cut(start, run, dims);
        take(cut.head);
        if (run > most) {
            const int64_t count = run / most;
            std::vector<MovedBox::Dim> rows = dims;
            rows.insert(rows.begin(), {count, most * start.step, most});
            start.run = most;
            append(list, start, rows, vectors, turn);
            start.box.from += count * most * start.step;
            start.box.to += count * most;
            run %= most;
        }
        if (cut.tail) take(run / lanes * lanes);
        start.behind = run > 0 ? box.behind : 0;
        take(run);
        if (start.behind < box.behind) {
            start.box.input = -1;
            start.step = 0;
            take(box.behind);
        }
    }
    return list;
}

}  // namespace atalla
