// Tuning that is killed at random moments, again and again: nothing but the trials under way is lost, and the end is the same.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <new>
#include <thread>

#include "tests/autotune/synthetic.h"
#include "tests/support/settings.h"

namespace atalla {
namespace {

using testing_db::start_child;
using testing_db::wait_for;

constexpr int threads = 2;

// Ended evaluations, counted across processes.
class SharedCounter {
public:
    SharedCounter()
        : memory_(mmap(nullptr, sizeof(std::atomic<int64_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
        new (memory_) std::atomic<int64_t>(0);
    }
    ~SharedCounter() { munmap(memory_, sizeof(std::atomic<int64_t>)); }
    std::atomic<int64_t> &value() const { return *static_cast<std::atomic<int64_t> *>(memory_); }

private:
    void *memory_;
};

TuneOptions every_point() {
    TuneOptions options = synthetic::quiet(0);
    options.strategy = Strategy::Exhaustive;
    options.threads = threads;
    return options;
}

int64_t rows(const std::filesystem::path &file) {
    return std::filesystem::exists(file) ? static_cast<int64_t>(Database(file).trials_of(synthetic::task().key()).size()) : 0;
}

TEST(Kills, AreSurvivedAtAnyMoment) {
    TemporaryFolder folder;
    const std::filesystem::path file = folder / "killed.db";
    const SharedCounter ended;
    const auto start = [&](std::chrono::microseconds pause) {
        return start_child([&, pause] {
            TuningTask task = synthetic::task();
            task.evaluate = [&, pause, evaluate = task.evaluate](const Point &point, int64_t limit) {
                std::this_thread::sleep_for(pause);
                ended.value()++;
                return evaluate(point, limit);
            };
            Database database(file);
            tune(task, &database, every_point());
        });
    };
    Random random(11);
    const int attempts = test_rounds(10);
    int kills = 0;
    for (int attempt = 0; attempt < attempts; attempt++) {
        const int64_t before = rows(file), ended_before = ended.value();
        const pid_t child = start(std::chrono::microseconds(500));
        std::this_thread::sleep_for(std::chrono::microseconds(random.below(25'000)));
        kill(child, SIGKILL);
        kills += wait_for(child) == -SIGKILL;
        const int64_t now = rows(file);
        EXPECT_GE(now, before) << "a stored trial is gone";
        EXPECT_LE(ended.value() - ended_before - (now - before), threads) << "more is lost than the trials under way";
        ASSERT_EQ(Database(file).integrity(), "ok");
    }
    EXPECT_GE(kills, attempts / 4) << "most runs ended before they were killed";
    ASSERT_EQ(wait_for(start(std::chrono::microseconds(0))), 0);
    Database undisturbed(folder / "undisturbed.db");
    const pid_t child = start_child([&] {
        Database database(folder / "undisturbed.db");
        tune(synthetic::task(), &database, every_point());
    });
    ASSERT_EQ(wait_for(child), 0);
    EXPECT_EQ(Database(file).winner(synthetic::task().key())->trial.point,
              undisturbed.winner(synthetic::task().key())->trial.point);
    EXPECT_EQ(rows(file), rows(folder / "undisturbed.db"));
}

TEST(Kills, TwoProcessesShareAFileWithoutLoss) {
    TemporaryFolder folder;
    const std::filesystem::path file = folder / "shared.db";
    std::vector<pid_t> children;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        children.push_back(start_child([&, seed] {
            TuneOptions options = every_point();
            options.strategy = Strategy::Random;
            options.seed = seed;
            Database database(file);
            tune(synthetic::task(), &database, options);
        }));
    }
    for (const pid_t child : children) {
        EXPECT_EQ(wait_for(child), 0);
    }
    EXPECT_EQ(rows(file), static_cast<int64_t>(synthetic::sorted().size()));
    const auto winner = Database(file).winner(synthetic::task().key());
    ASSERT_TRUE(winner);
    EXPECT_EQ(winner->trial.cycles, synthetic::sorted().front().first);
    EXPECT_EQ(Database(file).runs_of(synthetic::task().key()).size(), 2u);
}

}  // namespace
}  // namespace atalla
