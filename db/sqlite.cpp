#include "db/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "isa/error.h"

namespace atalla::sqlite {

namespace {

// A read-only connection needs the shared-memory index of the write-ahead log, which it cannot create in a folder that
// it may not write. Without a log the file does not change and can be read as it is.
bool readable_as_is(const std::filesystem::path &file) {
    std::error_code ignored;
    const std::filesystem::path log = file.string() + "-wal";
    const bool empty_log = !std::filesystem::exists(log, ignored) || std::filesystem::file_size(log, ignored) == 0;
    const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
    return empty_log && ::access(folder.c_str(), W_OK) != 0;
}

std::string immutable_uri(const std::filesystem::path &file) {
    std::string uri = "file:";
    for (const unsigned char c : std::filesystem::absolute(file).string()) {
        const bool plain = std::isalnum(c) || c == '/' || c == '.' || c == '-' || c == '_';
        uri += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
    }
    return uri + "?immutable=1";
}

}  // namespace

Connection::Connection(const std::filesystem::path &file, Access access, int busy_milliseconds) : file_(file) {
    int flags = access == Access::ReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    std::string name = file.string();
    if (access == Access::ReadOnly && readable_as_is(file)) {
        name = immutable_uri(file);
        flags |= SQLITE_OPEN_URI;
    }
    const int code = sqlite3_open_v2(name.c_str(), &handle_, flags | SQLITE_OPEN_NOMUTEX, nullptr);
    try {
        if (code != SQLITE_OK) {
            fail(code);
        }
        if (access == Access::ReadWrite && sqlite3_db_readonly(handle_, "main") == 1) {
            fail(SQLITE_READONLY);
        }
    } catch (...) {
        sqlite3_close(handle_);
        throw;
    }
    sqlite3_extended_result_codes(handle_, 1);
    sqlite3_busy_timeout(handle_, busy_milliseconds);
}

Connection::~Connection() { sqlite3_close(handle_); }

void Connection::execute(const std::string &sql) {
    const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) {
        fail(code);
    }
}

std::optional<int64_t> Connection::integer(const std::string &sql) {
    Statement statement(*this, sql);
    return statement.step() ? std::optional(statement.integer(0)) : std::nullopt;
}

std::optional<std::string> Connection::text(const std::string &sql) {
    Statement statement(*this, sql);
    return statement.step() ? std::optional(statement.text(0)) : std::nullopt;
}

int64_t Connection::changes() const { return sqlite3_changes64(handle_); }

bool Connection::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

void Connection::fail(int code) const {
    const std::string name = file_.string();
    const int system_error = handle_ ? sqlite3_system_errno(handle_) : 0;
    const std::string detail = handle_ ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
    const std::string system_detail = system_error ? std::strerror(system_error) : detail;
    switch (code & 0xff) {
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            throw Error(
                fmt::format("the database {} is locked: another process has been writing to it for too long; wait "
                            "for it to end, or use a file of its own for each process and merge them",
                            name));
        case SQLITE_READONLY:
            throw Error(
                fmt::format("the database {} cannot be written: it was opened for reading only, or its file or "
                            "folder is write-protected",
                            name));
        case SQLITE_FULL:
            throw Error(
                fmt::format("no space left to write the database {}; everything recorded before is kept: free some "
                            "space and run the same command again",
                            name));
        case SQLITE_CORRUPT:
            throw Error(
                fmt::format("the database {} is damaged ({}); move it away and merge your exports into a new one, "
                            "or save what can be read with: sqlite3 {} .recover",
                            name, detail, name));
        case SQLITE_NOTADB:
            throw Error(fmt::format("{} is not a tuning database: the file is not in SQLite's format", name));
        case SQLITE_CANTOPEN:
            throw Error(fmt::format("cannot open the database {}: {}", name, system_detail));
        case SQLITE_IOERR:
            // A limit on file sizes, a quota or a full disk below the log's index do not come as SQLITE_FULL.
            if (code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_SHMSIZE || code == SQLITE_IOERR_FSYNC) {
                throw Error(
                    fmt::format("writing the database {} failed: the disk is full, over a limit, or broken; everything "
                                "recorded before is kept: free some space and run the same command again",
                                name));
            }
            throw Error(fmt::format("reading or writing the database {} failed: {}", name, system_detail));
        default:
            if (detail.starts_with("no such table") || detail.starts_with("no such column")) {
                throw Error(fmt::format(
                    "the database {} lacks what its version has ({}): another program must have changed it; move it "
                    "away and merge your exports into a new one",
                    name, detail));
            }
            throw Error(fmt::format("the database {} reports: {} (SQLite code {})", name, detail, code));
    }
}

Statement::Statement(Connection &connection, std::string_view sql) : connection_(connection) {
    const int code = sqlite3_prepare_v2(connection.handle(), sql.data(), static_cast<int>(sql.size()), &handle_, nullptr);
    if (code != SQLITE_OK) {
        connection.fail(code);
    }
}

Statement::~Statement() { sqlite3_finalize(handle_); }

void Statement::reset(size_t parameters) {
    sqlite3_reset(handle_);
    const int expected = sqlite3_bind_parameter_count(handle_);
    if (parameters != static_cast<size_t>(expected)) {
        throw Error(
            fmt::format("a statement with {} parameters was given {} values: {}", expected, parameters, sqlite3_sql(handle_)));
    }
}

bool Statement::step() {
    const int code = sqlite3_step(handle_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        connection_.fail(code);
    }
    return code == SQLITE_ROW;
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }

double Statement::real(int column) const { return sqlite3_column_double(handle_, column); }

std::string Statement::text(int column) const {
    const auto *data = reinterpret_cast<const char *>(sqlite3_column_text(handle_, column));
    return data ? std::string(data, sqlite3_column_bytes(handle_, column)) : std::string();
}

bool Statement::is_null(int column) const { return sqlite3_column_type(handle_, column) == SQLITE_NULL; }

void Statement::bind_integer(int index, int64_t value) { sqlite3_bind_int64(handle_, index, value); }

void Statement::bind_real(int index, double value) { sqlite3_bind_double(handle_, index, value); }

void Statement::bind_text(int index, std::string_view value) {
    const int code =
        sqlite3_bind_text64(handle_, index, value.data() ? value.data() : "", value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
    if (code != SQLITE_OK) {
        connection_.fail(code);
    }
}

void Statement::bind_null(int index) { sqlite3_bind_null(handle_, index); }

Transaction::Transaction(Connection &connection, Kind kind) : connection_(connection) {
    connection.execute(kind == Kind::Write ? "BEGIN IMMEDIATE" : "BEGIN");
}

Transaction::~Transaction() {
    // A failed statement may have rolled back already.
    if (open_ && connection_.in_transaction()) {
        sqlite3_exec(connection_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
}

void Transaction::commit() {
    connection_.execute("COMMIT");
    open_ = false;
}

}  // namespace atalla::sqlite
