// The pieces that boxes are moved in, each of which is a loop nest whose bounds are constants.
#pragma once

#include <cstdint>
#include <vector>

#include "generators/movement.h"
#include "isa/machine.h"
#include "isa/vectors.h"
#include "schedules/point.h"

namespace atalla {

// A piece of a box that one loop nest moves: `run` neighbouring elements, `rows` of them and `planes` of these at a time, the
// other loops around.
struct MovedPiece {
    static constexpr int64_t of_run = 1;  // of the parameter `turn`: a pad has one run in turn

    MovedBox box;  // where it begins; no dims
    int64_t run = 1;
    int64_t step = 0;    // from an element of a run to the next in the input; 0: all are one
    int64_t behind = 0;  // constants behind a run
    MovedBox::Dim rows = {1, 0, 0}, planes = {1, 0, 0};
    std::vector<MovedBox::Dim> loops;  // innermost first
    bool operator==(const MovedPiece &) const = default;
    int64_t length() const { return run + behind; }                                    // of a run in the result
    int64_t vectors() const { return rows.extent * tiles_of(length()); }               // of a plane
    int64_t neighbours() const { return apart() ? rows.extent : tiles_of(length()); }  // that a loop of its own makes
    // The rows that a pad has in turn: all of a plane where there are several.
    int64_t turn(int64_t wanted) const { return planes.extent > 1 ? vectors() : wanted == of_run ? neighbours() : wanted; }
    // Are its rows whole turns of several pads?
    bool takes_turns(int64_t wanted, int64_t pads) const {
        return vectors() % (turn(wanted) * pads) == 0 && (neighbours() % turn(wanted) == 0 || turn(wanted) % neighbours() == 0);
    }
    bool apart() const {
        return (step == 1 || box.input < 0) && behind == 0 && run % lanes == 0 && run > lanes && run / lanes < lanes &&
               rows.extent > run / lanes;
    }
};

// Of these boxes. What is left over by a loop becomes a piece of its own.
std::vector<MovedPiece> pieces_of(const std::vector<MovedBox> &boxes, const Machine &machine, const Point &point);

}  // namespace atalla
