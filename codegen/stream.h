// Rows that are all in the pads at a time, and a loop over them that nothing is around: their transfers run beside the loop.
#pragma once

#include "codegen/transfer_code.h"

namespace atalla::codegen {

// Is it a loop at the outermost level that is long enough? Its buffers have guard rows in front, too, since idle loads must not
// meet transfers.
bool may_stream(const Kernel &kernel, const Loop &loop);

// Of a loop at the outermost level that reads what copies in front of it bring and makes what one behind it takes: copies keep
// the tiles that must be there when the loop begins and those that are left when it ends. All others start from inside the
// loop, a group of the pads at a time, at one distance.
void stream_copies(Kernel &kernel, TransferCode &code);

}  // namespace atalla::codegen
