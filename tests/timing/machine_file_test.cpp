#include "tests/timing/rig.h"
