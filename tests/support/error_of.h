// What an action refuses to do, as tests compare it.
#pragma once

#include <string>

#include "isa/error.h"

namespace atalla {

// The message of the Error that `action` throws, or "no error". Other exceptions pass.
template <typename Action>
std::string error_of(Action &&action) {
    try {
        action();
    } catch (const Error &error) {
        return error.what();
    }
    return "no error";
}

}  // namespace atalla
