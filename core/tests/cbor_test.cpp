#include "assay/buffer/cbor.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <nlohmann/json.hpp>

#include "bytes_fixture.hpp"
#include "lazy_source.hpp"
#include "scratch_file.hpp"

namespace assay {
namespace {

using nlohmann::json;
using test::content;
using test::CopyCount;
using test::made;
using Octets = std::vector<std::uint8_t>;
using CborTest = test::OnChecking;

std::span<const std::byte> bytes_of(const Octets& octets) {
  return std::as_bytes(std::span(octets));
}

Octets octets_of(std::span<const std::byte> bytes) {
  Octets octets;
  for (const std::byte byte : bytes) octets.push_back(std::to_integer<std::uint8_t>(byte));
  return octets;
}

Octets patterned(std::size_t size) {
  return octets_of(test::counting(size, 3));
}

/// As a caller without a scratch or a home would: the sink fills a vector.
Octets streamed(const Bytes& value) {
  Octets out;
  out.reserve(cbor_size(value.len()));
  const auto done = encode_cbor(value, {}, [&](std::span<const std::byte> piece) -> Result<void> {
    for (const std::byte byte : piece) out.push_back(std::to_integer<std::uint8_t>(byte));
    return {};
  });
  EXPECT_TRUE(done.has_value());
  return out;
}

/// What must be refused, and where.
void expect_refused(const Octets& input, std::size_t offset, const std::string& what) {
  // In a block of exactly this size, so that a sanitizer sees the first byte read beyond it.
  const std::unique_ptr<std::byte[]> exact(new std::byte[input.size()]);
  std::ranges::copy(bytes_of(input), exact.get());
  const auto backing = test::CheckingBacking::make();
  const auto home = Home::make(backing).value();
  const auto refused = decode_cbor(std::span(exact.get(), input.size()), *home);
  ASSERT_FALSE(refused.has_value()) << what;
  EXPECT_EQ(refused.error().code, ErrorCode::parse) << what;
  EXPECT_EQ(refused.error().requested, offset) << what;
  EXPECT_EQ(refused.error().limit, input.size()) << what;
  EXPECT_EQ(std::string(refused.error().native_text), what);
  EXPECT_EQ(backing->calls, 0u) << "allocated for a refused input: " << what;
}

TEST(Cbor, HeadsAreTheShortest) {
  const std::vector<std::pair<std::uint64_t, Octets>> heads = {
      {0, {0x40}},
      {23, {0x57}},
      {24, {0x58, 24}},
      {255, {0x58, 255}},
      {256, {0x59, 1, 0}},
      {65535, {0x59, 255, 255}},
      {65536, {0x5a, 0, 1, 0, 0}},
      {0xffff'ffff, {0x5a, 255, 255, 255, 255}},
      {0x1'0000'0000, {0x5b, 0, 0, 0, 1, 0, 0, 0, 0}},
      {size_max, {0x5b, 0x7f, 255, 255, 255, 255, 255, 255, 255}}};
  for (const auto& [len, head] : heads) {
    EXPECT_EQ(octets_of(CborHead(len).span()), head);
    EXPECT_EQ(cbor_size(len), head.size() + len);
  }
}

TEST(Cbor, OneElementOfTwoBytesIsThreeBytes) {
  std::vector<std::uint16_t> elements = {0xdead};
  const Bytes value = Bytes::from_vector(std::move(elements)).value();
  EXPECT_EQ(streamed(value), (Octets{0x42, 0xad, 0xde}));
}

/// Sizes around the edges of the heads, and some between.
std::size_t any_size() {
  const std::size_t edge = *rc::gen::element<std::size_t>(0, 23, 24, 255, 256, 65535, 65536, 1000);
  return edge + *rc::gen::inRange<std::size_t>(0, 3);
}

RC_GTEST_PROP(Cbor, EveryWayToEncodeIsWhatAnotherLibraryWrites, ()) {
  const Octets plain = patterned(any_size());
  const Octets expected = json::to_cbor(json::binary(plain));
  const Bytes value = Bytes::from_span(bytes_of(plain)).value();
  RC_ASSERT(cbor_size(plain.size()) == expected.size());
  RC_ASSERT(streamed(value) == expected);

  RC_ASSERT(octets_of(encode_cbor(value).value().span()) == expected);
  std::vector<std::byte> room(expected.size() + 7, std::byte{0xee});
  RC_ASSERT(encode_cbor(value, std::span(room)).value() == expected.size());
  RC_ASSERT(octets_of(std::span(room).first(expected.size())) == expected);
  RC_ASSERT(room[expected.size()] == std::byte{0xee});
}

RC_GTEST_PROP(Cbor, DecodesWhatAnotherLibraryWrites, ()) {
  const Octets plain = patterned(any_size());
  Octets encoded = json::to_cbor(json::binary(plain));
  const std::size_t size = encoded.size();
  encoded.resize(size + *rc::gen::inRange<std::size_t>(0, 4), 0xff);  // the next item
  const auto decoded = decode_cbor(bytes_of(encoded)).value();
  RC_ASSERT(octets_of(decoded.value.span()) == plain);
  RC_ASSERT(decoded.consumed == size);
  RC_ASSERT(!decoded.value.is_shared());
}

/// An array of integers and a string in chunks, as `json` reads them too.
RC_GTEST_PROP(Cbor, ChunksAndIntegersAreWhatAnotherLibraryReads, ()) {
  const auto chunks = *rc::gen::container<std::vector<Octets>>(rc::gen::arbitrary<Octets>());
  Octets whole;
  Octets encoded = {0x5f};
  for (const Octets& chunk : chunks) {
    whole.insert(whole.end(), chunk.begin(), chunk.end());
    const Octets one = json::to_cbor(json::binary(chunk));
    encoded.insert(encoded.end(), one.begin(), one.end());
  }
  encoded.push_back(0xff);
  RC_ASSERT(json::from_cbor(encoded).get_binary() == json::binary_t(whole));
  const auto joined = decode_cbor(bytes_of(encoded)).value();
  RC_ASSERT(octets_of(joined.value.span()) == whole);
  RC_ASSERT(joined.consumed == encoded.size());

  const Octets array = json::to_cbor(json(whole));
  const auto gathered = decode_cbor(bytes_of(array)).value();
  RC_ASSERT(octets_of(gathered.value.span()) == whole);
  RC_ASSERT(gathered.consumed == array.size());
}

/// Any bytes at all: refused in the input, or what the other library reads.
RC_GTEST_PROP(Cbor, NeverDisagreesWithAnotherLibrary, (const Octets& tail)) {
  Octets input = {*rc::gen::element<std::uint8_t>(0x40, 0x43, 0x57, 0x58, 0x59, 0x5a, 0x5b, 0x5c,
                                                  0x5f, 0x60, 0x80, 0x82, 0x98, 0x9f, 0xc2, 0xff)};
  input.insert(input.end(), tail.begin(), tail.end());
  const auto decoded = decode_cbor(bytes_of(input));
  if (!decoded) {
    RC_ASSERT(decoded.error().code == ErrorCode::parse);
    RC_ASSERT(decoded.error().requested <= input.size());
    return;
  }
  input.resize(decoded.value().consumed);
  const json other = json::from_cbor(input);
  const Octets expected = other.is_binary() ? Octets(other.get_binary()) : other.get<Octets>();
  RC_ASSERT(octets_of(decoded.value().value.span()) == expected);
}

TEST(Cbor, LengthsNeedNotBeShortest) {
  for (const Octets& input :
       {Octets{0x42, 1, 2}, Octets{0x58, 2, 1, 2}, Octets{0x59, 0, 2, 1, 2},
        Octets{0x5a, 0, 0, 0, 2, 1, 2}, Octets{0x5b, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2},
        Octets{0x5f, 0x41, 1, 0x40, 0x58, 1, 2, 0xff}, Octets{0x82, 1, 2},
        Octets{0x98, 2, 0x18, 1, 0x19, 0, 2}, Octets{0x9f, 1, 0x1a, 0, 0, 0, 2, 0xff}}) {
    const auto decoded = decode_cbor(bytes_of(input));
    ASSERT_TRUE(decoded.has_value()) << describe(decoded.error());
    EXPECT_EQ(octets_of(decoded.value().value.span()), (Octets{1, 2}));
    EXPECT_EQ(decoded.value().consumed, input.size());
  }
}

TEST(Cbor, MalformedInputIsRefusedWithItsPlaceAndNothingAllocated) {
  const char* const beyond = "a length beyond the end of the input";
  const char* const cut = "the input ends inside a head";
  expect_refused({0x41}, 0, beyond);
  expect_refused({0x58}, 0, cut);
  expect_refused({0x5b, 0, 0, 0, 0, 0, 0, 0}, 0, cut);
  expect_refused({0x5b, 0, 0, 0, 1, 0, 0, 0, 0}, 0, beyond);
  expect_refused({0x5b, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 0, beyond);
  expect_refused({0x5b, 255, 255, 255, 255, 255, 255, 255, 246, 1}, 0, beyond);
  expect_refused({0x5c, 1}, 0, "a reserved length");
  expect_refused({0x5f}, 1, "the input ends before the break");
  expect_refused({0x5f, 0x41, 7}, 3, "the input ends before the break");
  expect_refused({0x5f, 0x41, 7, 0x42, 1}, 3, beyond);
  expect_refused({0x5f, 0x41, 7, 0x59, 1}, 3, cut);
  expect_refused({0x5f, 0x5f, 0xff, 0xff}, 1, "a chunk of indefinite length");
  expect_refused({0x5f, 0x61, 'a', 0xff}, 1, "a chunk that is not a byte string");
  expect_refused({0x62, 'a', 'b'}, 0, "a text string where a byte string must be");
  expect_refused({0xa0}, 0, "neither a byte string nor an array of integers");
  expect_refused({0xc2, 0x41, 1}, 0, "neither a byte string nor an array of integers");
  expect_refused({0xff}, 0, "neither a byte string nor an array of integers");
  expect_refused({0x82, 1, 0x19, 1, 0}, 2, "an element above 255");
  expect_refused({0x82, 1, 0x20}, 2, "an element that is not an unsigned integer");
  expect_refused({0x81, 0x81, 1}, 1, "an element that is not an unsigned integer");
  expect_refused({0x9f, 1, 0x1f, 0xff}, 2, "an element that is not an unsigned integer");
  expect_refused({0x9f, 1}, 2, "the input ends before the break");
  expect_refused({0x82, 0x18, 1}, 3, "the input ends where an item must begin");
  expect_refused({0x9b, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 0,
                 "more elements than the input has bytes");
  const auto empty = decode_cbor(std::span<const std::byte>());
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().code, ErrorCode::parse);
}

TEST(Cbor, ErrorSaysWhereInWords) {
  const Octets input = {0x82, 1, 0x19, 1, 0};
  const auto refused = decode_cbor(bytes_of(input));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(describe(refused.error()),
            "decode_cbor: parse at byte 2 of 5 (an element above 255); correct the input");
}

TEST_F(CborTest, StreamingCopiesNothingAndKeepsThePieceWhole) {
  const Bytes value = made(100'000, 1, *home_);
  const CopyCount copies;
  std::vector<std::span<const std::byte>> pieces;
  ASSERT_TRUE(encode_cbor(value, {}, [&](std::span<const std::byte> piece) -> Result<void> {
                pieces.push_back(piece);
                return {};
              }).has_value());
  EXPECT_EQ(copies.so_far(), 0u);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[1].data(), value.data());
  EXPECT_EQ(pieces[1].size(), value.len());
}

TEST_F(CborTest, SinkMayRefuse) {
  const Bytes value = made(10, 1, *home_);
  for (const int refused_call : {1, 2}) {
    int calls = 0;
    const auto done = encode_cbor(value, {}, [&](std::span<const std::byte>) -> Result<void> {
      if (++calls == refused_call) return Error::make(ErrorCode::io, "sink");
      return {};
    });
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, ErrorCode::io);
    EXPECT_EQ(calls, refused_call);
  }
}

TEST_F(CborTest, EncodingCopiesOnceAndAllocatesOnce) {
  const Bytes value = made(1000, 1, *home_);
  std::vector<std::byte> room(cbor_size(1000));
  const CopyCount into_span;
  ASSERT_TRUE(encode_cbor(value, std::span(room)).has_value());
  EXPECT_EQ(into_span.so_far(), 1000u);

  const auto allocations = backing_->allocations;
  const CopyCount into_bytes;
  Bytes encoded = encode_cbor(value, *home_).value();
  EXPECT_EQ(into_bytes.so_far(), cbor_size(1000));
  EXPECT_EQ(backing_->allocations, allocations + 1);

  const auto first = content(encoded);
  encoded.truncate(0);
  ASSERT_TRUE(append_cbor(encoded, value).has_value());  // into the same buffer
  ASSERT_EQ(backing_->allocations, allocations + 1);
  EXPECT_EQ(content(encoded), first);
}

TEST_F(CborTest, ARefusedEncodingChangesNothing) {
  const Bytes value = made(1000, 1, *home_);
  std::vector<std::byte> room(cbor_size(1000) - 1, std::byte{0xee});
  const auto untouched = room;
  const auto refused = encode_cbor(value, std::span(room));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_range);
  EXPECT_EQ(refused.error().requested, cbor_size(1000));
  EXPECT_EQ(refused.error().limit, cbor_size(1000) - 1);
  EXPECT_EQ(room, untouched);

  Bytes to = made(3, 1, *home_);
  backing_->fail_nth(1);
  EXPECT_FALSE(append_cbor(to, value).has_value());
  backing_->fail_nth(0);
  EXPECT_EQ(content(to), test::counting(3));
  backing_->fail_nth(1);
  EXPECT_FALSE(encode_cbor(value, *home_).has_value());
  backing_->fail_nth(0);
}

TEST_F(CborTest, DecodingCopiesOnceAndAllocatesOnce) {
  Octets chunked = {0x5f, 0x58, 50};
  const Octets payload = patterned(50);
  chunked.insert(chunked.end(), payload.begin(), payload.end());
  chunked.insert(chunked.end(), chunked.begin() + 1, chunked.end());
  chunked.push_back(0xff);
  Octets array = {0x98, 100};
  for (int i = 0; i < 100; ++i) array.push_back(7);
  for (const Octets& input : {json::to_cbor(json::binary(patterned(100))), chunked, array}) {
    const auto allocations = backing_->allocations;
    const CopyCount copies;
    const auto decoded = decode_cbor(bytes_of(input), *home_);
    ASSERT_TRUE(decoded.has_value()) << describe(decoded.error());
    EXPECT_EQ(decoded.value().value.len(), 100u);
    EXPECT_EQ(copies.so_far(), 100u);
    EXPECT_EQ(backing_->allocations, allocations + 1);
    EXPECT_EQ(&decoded.value().value.home(), home_.get());
    backing_->fail_nth(1);
    const auto failed = decode_cbor(bytes_of(input), *home_);
    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error().code, ErrorCode::out_of_memory);
    backing_->fail_nth(0);
  }
}

TEST_F(CborTest, SharedInputGivesAView) {
  Bytes input = encode_cbor(made(1000, 1, *home_), *home_).value();
  const auto copied = decode_cbor(input).value();
  EXPECT_NE(copied.value.data(), input.data() + 3);
  EXPECT_TRUE(copied.value.is_exclusive());
  ASSERT_TRUE(input.shared().has_value());
  const CopyCount copies;
  const auto decoded = decode_cbor(input).value();
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(decoded.value.data(), input.data() + 3);
  EXPECT_TRUE(decoded.value.is_shared());
  EXPECT_EQ(decoded.consumed, input.len());
  EXPECT_EQ(decoded.value, copied.value);
}

TEST_F(CborTest, SequenceIsReadItemByItem) {
  Bytes sequence = Bytes::with_capacity(0, *home_).value();
  for (std::size_t size = 0; size < 300; size += 13) {
    ASSERT_TRUE(append_cbor(sequence, made(size)).has_value());
  }
  ASSERT_TRUE(sequence.shared().has_value());
  std::size_t at = 0;
  for (std::size_t size = 0; size < 300; size += 13) {
    const Bytes rest = sequence.view(at, sequence.len()).value();
    const auto item = decode_cbor(rest).value();
    EXPECT_EQ(item.value, made(size));
    at += item.consumed;
  }
  EXPECT_EQ(at, sequence.len());
}

// --- values that are not resident

using test::LazySource;
using Read = LazySource::Read;

std::vector<std::byte> encoded_counting(std::size_t size) {
  return content(encode_cbor(made(size)).value());
}

// bytes:W-05, bytes:W-27
TEST_F(CborTest, StreamingAnUnreadValueReadsItOnceAndKeepsNothing) {
  const auto source = LazySource::make(test::counting(1000));
  const Bytes value = lazy_bytes(source, *home_);
  std::vector<std::byte> scratch(300);
  std::vector<std::byte> out;
  const CopyCount copies;
  const SourceReads before = source_reads();
  const auto done =
      encode_cbor(value, scratch, [&](std::span<const std::byte> piece) -> Result<void> {
        EXPECT_LE(piece.size(), scratch.size());
        out.insert(out.end(), piece.begin(), piece.end());
        return {};
      });
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(out, encoded_counting(1000));
  EXPECT_EQ(source_reads().bytes - before.bytes, 1000u);
  EXPECT_EQ(source_reads().calls - before.calls, 4u);
  EXPECT_EQ(source->reads(), (std::vector<Read>{{0, 300}, {300, 300}, {600, 300}, {900, 100}}));
  EXPECT_FALSE(value.is_resident());
  EXPECT_EQ(backing_->calls, 0u);
}

TEST_F(CborTest, StreamingAnUnreadValueNeedsAScratch) {
  const Bytes value = lazy_bytes(LazySource::make(test::counting(10)), *home_);
  const auto refused = encode_cbor(value, {}, [](std::span<const std::byte>) -> Result<void> {
    ADD_FAILURE() << "the sink was called";
    return {};
  });
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
}

TEST_F(CborTest, EncodingAnUnreadValueReadsItOnceIntoPlace) {
  const auto source = LazySource::make(test::counting(1000));
  const Bytes value = lazy_bytes(source, *home_);
  std::vector<std::byte> room(cbor_size(1000));
  const CopyCount copies;
  ASSERT_TRUE(encode_cbor(value, std::span(room)).has_value());
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(source->reads(), (std::vector<Read>{{0, 1000}}));
  const Bytes encoded = encode_cbor(value, *home_).value();
  EXPECT_EQ(copies.so_far(), CborHead(1000).size());
  EXPECT_EQ(source->read_count(), 2u);
  EXPECT_FALSE(value.is_resident());
  EXPECT_EQ(room, encoded_counting(1000));
  EXPECT_EQ(content(encoded), room);
}

TEST_F(CborTest, AFailingSourceIsAnErrorAndCanBeTriedAgain) {
  const auto source = LazySource::make(test::counting(1000));
  const Bytes value = lazy_bytes(source, *home_);
  source->fail_all(true);
  std::vector<std::byte> room(cbor_size(1000));
  EXPECT_EQ(encode_cbor(value, std::span(room)).error().code, ErrorCode::read_failed);
  EXPECT_EQ(encode_cbor(value, *home_).error().code, ErrorCode::read_failed);
  const auto ignore = [](std::span<const std::byte>) -> Result<void> { return {}; };
  EXPECT_EQ(encode_cbor(value, std::span(room).first(9), ignore).error().code,
            ErrorCode::read_failed);
  Bytes to = made(3, 1, *home_);
  EXPECT_EQ(append_cbor(to, value).error().code, ErrorCode::read_failed);
  EXPECT_EQ(content(to), test::counting(3));
  EXPECT_EQ(decode_cbor(value).error().code, ErrorCode::read_failed);
  source->fail_all(false);
  ASSERT_TRUE(append_cbor(to, value).has_value());
  EXPECT_EQ(to.len(), 3 + cbor_size(1000));
}

TEST_F(CborTest, DecodingAnUnreadInputReadsItsHeadAlone) {
  const auto source = LazySource::make(encoded_counting(1000));
  const Bytes input = lazy_bytes(source, *home_);
  const auto decoded = decode_cbor(input).value();
  EXPECT_EQ(source->reads(), (std::vector<Read>{{0, CborHead::size_max}}));
  EXPECT_FALSE(decoded.value.is_resident());
  EXPECT_FALSE(input.is_resident());
  EXPECT_EQ(decoded.consumed, input.len());
  ASSERT_TRUE(decoded.value.read().has_value());
  EXPECT_EQ(content(decoded.value), test::counting(1000));
  EXPECT_EQ(source->reads().back(), (Read{3, 1000}));
}

TEST_F(CborTest, ChunksAndIntegersOfAnUnreadInputAreReadInPlace) {
  std::vector<std::byte> chunks = {std::byte{0x5f}};
  std::vector<std::byte> array = {std::byte{0x9f}};
  for (int i = 0; i < 3; ++i) {
    const auto chunk = encoded_counting(1000);
    chunks.insert(chunks.end(), chunk.begin(), chunk.end());
  }
  for (int i = 0; i < 3000; ++i)
    array.push_back(test::counting(1000)[static_cast<std::size_t>(i) % 1000] & std::byte{0x17});
  chunks.push_back(std::byte{0xff});
  array.push_back(std::byte{0xff});
  for (const auto& input : {chunks, array}) {
    const auto source = LazySource::make(input);
    const Bytes lazy = lazy_bytes(source, *home_);
    const auto decoded = decode_cbor(lazy);
    ASSERT_TRUE(decoded.has_value()) << describe(decoded.error());
    EXPECT_FALSE(lazy.is_resident());
    EXPECT_EQ(decoded.value().value, decode_cbor(std::span(input)).value().value);
    EXPECT_EQ(decoded.value().consumed, input.size());
    EXPECT_LE(source->read_count(), 30u) << "read byte by byte";
    for (std::size_t nth = 1; nth <= source->read_count(); ++nth) {
      const auto failing = LazySource::make(input);
      const Bytes again = lazy_bytes(failing, *home_);
      failing->fail_nth(nth);
      const auto failed = decode_cbor(again);
      ASSERT_FALSE(failed.has_value()) << nth;
      EXPECT_EQ(failed.error().code, ErrorCode::read_failed);
    }
  }
}

TEST_F(CborTest, AMappedFileThatChangesIsAnErrorOfEveryWay) {
  const test::ScratchFile file(encoded_counting(10'000));
  const Bytes mapped = Bytes::map_file(file.path()).value();
  EXPECT_EQ(decode_cbor(mapped).value().value, made(10'000));
  const auto stream = [&](auto&& change) {
    return encode_cbor(mapped, {}, [&](std::span<const std::byte> piece) -> Result<void> {
      if (piece.size() > CborHead::size_max) change();
      return {};
    });
  };
  EXPECT_TRUE(stream([] {}).has_value());
  const auto done = stream([&] { file.resize(1000); });
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::source_changed);
  EXPECT_EQ(encode_cbor(mapped, *home_).error().code, ErrorCode::source_changed);
  EXPECT_EQ(decode_cbor(mapped).error().code, ErrorCode::source_changed);
}

TEST(CborDeathTest, AppendingAValueToItselfBreaksAContract) {
  Bytes value = made(3);
  EXPECT_DEATH(static_cast<void>(append_cbor(value, value)), "appended to itself");
}

}  // namespace
}  // namespace assay
