// Points: canonical text, both ways, and the messages for what is not a point.
#include "schedules/point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "isa/error.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::HasSubstr;

std::string parse_error(const std::string &text) {
    return error_of([&] { Point::parse(text); });
}

TEST(Point, TextIsCanonical) {
    Point point;
    point.set("tile_n", 2);
    point.set("tile_m", -4);
    EXPECT_EQ(point.text(), R"({"tile_m":-4,"tile_n":2})");
    EXPECT_EQ(point.assignments(), "tile_m=-4,tile_n=2");
    EXPECT_EQ(Point().text(), "{}");
}

TEST(Point, ReadsBothForms) {
    const Point point{{"b", INT64_MIN}, {"a", INT64_MAX}};
    EXPECT_EQ(Point::parse(point.text()), point);
    EXPECT_EQ(Point::parse(point.assignments()), point);
    EXPECT_EQ(Point::parse(R"({ "a": 1 })").text(), R"({"a":1})");
    EXPECT_TRUE(Point::parse("").empty());
}

TEST(Point, ComparesByNameThenValue) {
    EXPECT_EQ((Point{{"a", 1}, {"b", 2}}), (Point{{"b", 2}, {"a", 1}}));
    EXPECT_LT((Point{{"a", 1}, {"b", 9}}), (Point{{"a", 2}, {"b", 0}}));
    EXPECT_LT((Point{{"a", 1}}), (Point{{"a", 1}, {"b", 0}}));
}

TEST(Point, MissingParameterNamesTheNearest) {
    const Point point{{"tile_m", 1}, {"depth", 2}};
    EXPECT_EQ(point["depth"], 2);
    try {
        point["tile_n"];
        FAIL() << "a missing parameter was read";
    } catch (const Error &error) {
        EXPECT_STREQ(error.what(), "the point has no value for the parameter 'tile_n'; did you mean 'tile_m'?");
    }
}

TEST(Point, EraseForgets) {
    Point point{{"a", 1}, {"b", 2}};
    point.erase("a");
    point.erase("unknown");
    EXPECT_FALSE(point.contains("a"));
    EXPECT_EQ(point.text(), R"({"b":2})");
}

TEST(Point, OnlyKeepsWhatIsNamed) {
    const Point point{{"a", 1}, {"b", 2}, {"c", 3}};
    EXPECT_EQ(point.only({"c", "a", "c"}), (Point{{"a", 1}, {"c", 3}}));
    EXPECT_EQ(error_of([&] { point.only({"a", "d"}); }), "the point has no value for the parameter 'd'; did you mean 'a'?");
}

TEST(Point, RefusesWhatIsNotAPoint) {
    EXPECT_THAT(parse_error("{\"a\":1.5}"), HasSubstr("'a' of a point is 1.5, not a 64-bit integer"));
    EXPECT_THAT(parse_error("{\"a\":true}"), HasSubstr("is true, not a 64-bit integer"));
    EXPECT_THAT(parse_error("{\"a\":9223372036854775808}"), HasSubstr("not a 64-bit integer"));
    EXPECT_THAT(parse_error("{\"a\":1,\"a\":2}"), HasSubstr("'a' twice"));
    EXPECT_THAT(parse_error("{\"a\":{\"b\":1}}"), HasSubstr("not a 64-bit integer"));
    EXPECT_THAT(parse_error("{\"a\":" + std::string(1'000'000, '[')), HasSubstr("without anything nested"));
    EXPECT_THAT(parse_error("{\"a\":1"), HasSubstr("not valid JSON"));
    EXPECT_THAT(parse_error("[1]"), HasSubstr("'[1]' in a point is not name=integer"));
    EXPECT_THAT(parse_error("a=1,b"), HasSubstr("'b' in a point is not name=integer"));
    EXPECT_THAT(parse_error("a=1x"), HasSubstr("'a=1x' in a point is not name=integer"));
    EXPECT_THAT(parse_error("=1"), HasSubstr("not name=integer"));
    EXPECT_THAT(parse_error("a=1,,b=2"), HasSubstr("'' in a point is not name=integer"));
    EXPECT_EQ(parse_error("a b=1"), "\"a b\" is not the name of a parameter: letters, digits, '_' and '.' make one");
    EXPECT_THAT(parse_error("{\"\\u0000\":1}"), HasSubstr("\"\\u0000\" is not the name"));
    EXPECT_THAT(parse_error("a\xff=1"), HasSubstr("\"a\\ufffd\" is not the name"));
    EXPECT_THAT(parse_error("a=1,a=1"), HasSubstr("'a' twice"));
}

}  // namespace
}  // namespace atalla
