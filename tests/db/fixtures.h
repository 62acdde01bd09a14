// What the database tests share: child processes, and trials to store.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>

#include "db/database.h"
#include "isa/error.h"
#include "tests/support/shell.h"

namespace atalla::testing_db {

// Runs in a process of its own; an exception ends it with status 3 and its message on stderr.
inline pid_t start_child(const std::function<void()> &body) {
    const pid_t child = fork();
    if (child == 0) {
        try {
            body();
        } catch (const std::exception &error) {
            std::cerr << "child: " << error.what() << '\n';
            _exit(3);
        }
        _exit(0);
    }
    return child;
}

// The exit status, or minus the signal that killed it.
inline int wait_for(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return exit_status(status);
}

inline TrialKey key(const std::string &workload = R"({"m":64})") { return {"aten::mm", workload, "machine-1", "compiler-1"}; }

inline Trial ok(int64_t value, int64_t cycles) {
    Trial trial;
    trial.point = {{"tile", value}, {"depth", 2}};
    trial.status = Trial::Ok;
    trial.cycles = cycles;
    trial.counters = {{"cycles", cycles}, {"packets", cycles / 2}};
    trial.seconds_lower = 0.0625;
    trial.seconds_simulate = 0.1;
    return trial;
}

inline Trial not_ok(int64_t value, Trial::Status status, const std::string &reason) {
    Trial trial;
    trial.point = {{"tile", value}, {"depth", 2}};
    trial.status = status;
    trial.reason = reason;
    return trial;
}

inline std::string export_text(const Database &database) {
    std::ostringstream out;
    database.export_to(out);
    return out.str();
}

}  // namespace atalla::testing_db
