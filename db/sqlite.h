// A thin RAII layer over the SQLite C API: connection, statement, transaction; every failure is a clear Error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

struct sqlite3;
struct sqlite3_stmt;

namespace atalla::sqlite {

enum class Access { ReadWrite, ReadOnly };

class Connection {
public:
    // ReadWrite creates the file if there is none. ReadOnly needs the file, and takes no lock file beside it where the
    // folder cannot be written. `busy_milliseconds` is how long to wait for another process that is writing.
    Connection(const std::filesystem::path &file, Access access, int busy_milliseconds);
    ~Connection();
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    // Runs statements that give no rows that matter.
    void execute(const std::string &sql);
    // The first column of the first row, nothing if there is no row.
    std::optional<int64_t> integer(const std::string &sql);
    std::optional<std::string> text(const std::string &sql);

    int64_t changes() const;  // rows changed by the last statement
    bool in_transaction() const;
    const std::filesystem::path &file() const { return file_; }
    sqlite3 *handle() const { return handle_; }

    // Throws Error for a result code: locked, read-only, full, corrupt, not a database, ... and what to do about it.
    [[noreturn]] void fail(int code) const;

private:
    std::filesystem::path file_;
    sqlite3 *handle_ = nullptr;
};

// A prepared statement. Parameters are bound in order, by one call or by `run(values...)`.
class Statement {
public:
    Statement(Connection &connection, std::string_view sql);
    ~Statement();
    Statement(const Statement &) = delete;
    Statement &operator=(const Statement &) = delete;

    // Binds all parameters, forgetting the earlier ones, and rewinds. Their number must be that of the statement.
    template <typename... Values>
    Statement &bind(const Values &...values) {
        reset(sizeof...(values));
        int index = 0;
        (bind_one(++index, values), ...);
        return *this;
    }
    // Advances; false when there are no more rows.
    bool step();
    // Binds and runs to the end.
    template <typename... Values>
    void run(const Values &...values) {
        bind(values...);
        while (step()) {
        }
    }

    // Columns of the current row, from 0.
    int64_t integer(int column) const;
    double real(int column) const;
    std::string text(int column) const;
    bool is_null(int column) const;

private:
    void reset(size_t parameters);
    void bind_integer(int index, int64_t value);
    void bind_real(int index, double value);
    void bind_text(int index, std::string_view value);
    void bind_null(int index);
    template <typename Value>
    void bind_one(int index, const Value &value) {
        if constexpr (std::is_same_v<Value, std::nullptr_t>) {
            bind_null(index);
        } else if constexpr (std::is_integral_v<Value> || std::is_enum_v<Value>) {
            bind_integer(index, static_cast<int64_t>(value));
        } else if constexpr (std::is_floating_point_v<Value>) {
            bind_real(index, value);
        } else {
            bind_text(index, value);
        }
    }

    Connection &connection_;
    sqlite3_stmt *handle_ = nullptr;
};

// Write takes the write lock at once, so that it waits here and cannot fail half-way; Read gives all statements in it the
// same snapshot. Rolls back unless committed.
class Transaction {
public:
    enum class Kind { Write, Read };
    explicit Transaction(Connection &connection, Kind kind = Kind::Write);
    ~Transaction();
    Transaction(const Transaction &) = delete;
    Transaction &operator=(const Transaction &) = delete;
    void commit();

private:
    Connection &connection_;
    bool open_ = true;
};

}  // namespace atalla::sqlite
