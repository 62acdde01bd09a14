// Runs the command line tools from outside, in a temporary folder of the test's own.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace atalla::testing_tools {

struct Output {
    int status = 0;   // exit status, or minus the signal that ended it
    std::string out, error;
};

class Tool : public testing::Test {
protected:
    Tool() {
        std::string name = (std::filesystem::temp_directory_path() / "atalla-test-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder for the test");
        folder_ = name;
    }
    ~Tool() override {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }

    std::filesystem::path file(const std::string &name) const { return folder_ / name; }

    void write(const std::string &name, const std::string &text) const { std::ofstream(file(name), std::ios::binary) << text; }
    std::string read(const std::string &name) const {
        std::ostringstream text;
        text << std::ifstream(file(name), std::ios::binary).rdbuf();
        return text.str();
    }

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
        if (chdir(folder_.c_str()) != 0 || std::freopen("stdout", "w", stdout) == nullptr || std::freopen("stderr", "w", stderr) == nullptr) _exit(126);
        setenv("ATALLA_DB", "x.db", 1);
        execv(argv[0], argv.data());
        _exit(127);
    }
    Output finish(pid_t child) const {
        int status = 0;
        waitpid(child, &status, 0);
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read("stdout"), read("stderr")};
    }
    Output run(const std::string &program, const std::string &arguments) const { return finish(start(program, arguments)); }

private:
    std::filesystem::path folder_;
};

}  // namespace atalla::testing_tools
