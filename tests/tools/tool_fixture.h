// Runs the command line tools from outside, in a temporary folder of the test's own.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/shell.h"

namespace atalla::testing_tools {

class Tool : public testing::Test {
protected:
    std::filesystem::path file(const std::string &name) const { return folder_ / name; }

    void write(const std::string &name, const std::string &text) const { std::ofstream(file(name), std::ios::binary) << text; }
    std::string read(const std::string &name) const { return read_text(file(name)); }

    // Starts a program in the temporary folder, with the database x.db there; words are split at spaces.
    pid_t start(const std::string &program, const std::string &arguments) const {
        std::vector<std::string> words = {program};
        std::istringstream stream(arguments);
        for (std::string word; stream >> word;) words.push_back(word);
        const pid_t child = fork();
        if (child != 0) return child;
        std::vector<char *> argv;
        for (std::string &word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        if (chdir(folder_.path().c_str()) != 0 || std::freopen("stdout", "w", stdout) == nullptr ||
            std::freopen("stderr", "w", stderr) == nullptr)
            _exit(126);
        setenv("ATALLA_DB", "x.db", 1);
        execv(argv[0], argv.data());
        _exit(127);
    }
    Output finish(pid_t child) const {
        int status = 0;
        waitpid(child, &status, 0);
        return {exit_status(status), read("stdout"), read("stderr")};
    }
    Output run(const std::string &program, const std::string &arguments) const { return finish(start(program, arguments)); }

private:
    TemporaryFolder folder_;
};

}  // namespace atalla::testing_tools
