// SPDX-License-Identifier: Apache-2.0
// The contract of dataplane/device/device_memory.hpp, the same for each implementation.
#include "tests/contract/device/device_under_test.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "dataplane/base/mapping.hpp"
#include "dataplane/base/memfd.hpp"
#include "dataplane/kernels/convert.hpp"
#include "tests/support/drive_device.hpp"
#include "tests/support/fixed_headroom.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t capacity_frames = 12;
constexpr CopyConversion as_it_is{};

std::vector<std::byte> pattern(std::uint64_t bytes, std::uint64_t seed) {
  std::vector<std::byte> content(bytes);
  std::mt19937_64 random(seed);
  for (std::uint64_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(content.data() + at, &word, std::min<std::uint64_t>(sizeof word, bytes - at));
  }
  return content;
}

// By memcmp, because a loop over bytes takes most of the suite's time under a sanitizer.
bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return bytes.empty() ||
         (bytes.front() == value && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class DeviceContract : public testing::TestWithParam<DeviceFactory> {
 protected:
  void SetUp() override { open(); }
  void open() {
    device_ = GetParam().make(
        {.frame_bytes = frame_bytes(), .capacity_bytes = capacity_frames * frame_bytes()}, headroom_);
    ASSERT_NE(device_, nullptr);
  }
  FrameOwner& owner() { return device_->owner(); }
  FrameWriter& writer() { return device_->writer(); }
  std::uint64_t frame_bytes() const { return GetParam().frame_bytes; }

  FrameId make_attached() {
    const std::optional<FrameId> frame = make_frame(owner());
    EXPECT_TRUE(frame.has_value());
    EXPECT_TRUE(writer().attach(frame.value_or(FrameId{})));
    return frame.value_or(FrameId{});
  }
  void write(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
             const CopyConversion& conversion = as_it_is) {
    const Result<FenceId> fence = writer().copy(frame, offset, device_->stage(source), conversion);
    ASSERT_TRUE(fence.has_value());
    ASSERT_TRUE(wait_reached(writer(), *fence));
  }
  std::vector<std::byte> published(FrameId frame, FrameAccess access = FrameAccess::shared_read_only) {
    const Result<ExportedFrame> fd = owner().share(frame, access);
    EXPECT_TRUE(fd.has_value());
    return fd ? device_->read_as_client(fd->get()) : std::vector<std::byte>{};
  }
  // Creates until the device says no, which is the answer that is returned.
  CreateResult fill(std::vector<FrameId>& frames) {
    while (true) {
      const CreateDone done = create_and_wait(owner());
      if (done.result != CreateResult::created) return done.result;
      frames.push_back(done.frame);
    }
  }

  FixedHeadroom headroom_;
  std::unique_ptr<DeviceUnderTest> device_;
};

TEST_P(DeviceContract, LimitsAreThoseItWasMadeWith) {
  const DeviceLimits limits = owner().limits();
  EXPECT_EQ(limits.frame_bytes, frame_bytes());
  EXPECT_EQ(limits.capacity_bytes, capacity_frames * frame_bytes());
  EXPECT_TRUE(std::has_single_bit(limits.tensor_alignment));
}

TEST_P(DeviceContract, ANewFrameIsZero) {
  const std::vector<std::byte> content = published(make_attached());
  ASSERT_EQ(content.size(), frame_bytes());
  EXPECT_TRUE(all_are(content, std::byte{0}));
}

TEST_P(DeviceContract, EachCreationIsAnsweredOnceUnderItsTag) {
  std::set<std::uint64_t> tags;
  for (std::uint64_t tag = 100; tag < 100 + capacity_frames; ++tag) owner().create(tag);
  std::set<FrameId> frames;
  for (const CreateDone& done : reap_all(owner(), capacity_frames)) {
    EXPECT_EQ(done.result, CreateResult::created);
    EXPECT_TRUE(tags.insert(done.tag).second);
    EXPECT_TRUE(frames.insert(done.frame).second);
  }
  EXPECT_EQ(tags.size(), capacity_frames);
  EXPECT_EQ(*tags.begin(), 100u);
  EXPECT_EQ(*tags.rbegin(), 100 + capacity_frames - 1);
  std::array<CreateDone, 1> none;
  EXPECT_EQ(owner().reap(none), 0u);
}

TEST_P(DeviceContract, CopiesLandWhereTheyWereAimed) {
  const FrameId frame = make_attached();
  const std::vector<std::byte> first = pattern(frame_bytes() / 2, 1);
  const std::vector<std::byte> second = pattern(4097, 2);
  write(frame, 0, first);
  write(frame, frame_bytes() - second.size(), second);
  const std::vector<std::byte> content = published(frame);
  ASSERT_EQ(content.size(), frame_bytes());
  const std::span<const std::byte> all(content);
  EXPECT_TRUE(std::ranges::equal(all.first(first.size()), first));
  EXPECT_TRUE(all_are(all.subspan(first.size(), frame_bytes() - first.size() - second.size()), std::byte{0}));
  EXPECT_TRUE(std::ranges::equal(all.last(second.size()), second));
}

TEST_P(DeviceContract, CopiesComeFromSourcesThatAreAddedAndDropped) {
  for (const std::uint64_t seed : {1u, 2u}) {
    const std::vector<std::byte> content = pattern(frame_bytes(), seed);
    const Result<UniqueFd> file = create_memfd("source", frame_bytes());
    const Result<Mapping> memory = Mapping::shared(file->get(), frame_bytes(), Access::read_write);
    std::ranges::copy(content, memory->data());
    const FrameId frame = make_attached();
    ASSERT_TRUE(writer().add_source(SourceId{1}, memory->bytes(), file->get()).has_value());
    const std::span<const std::byte> first = memory->bytes().first(8192);
    ASSERT_TRUE(writer().copy(frame, 0, first, as_it_is).has_value());
    const Result<FenceId> last = writer().copy(frame, 8192, first, {Dtype::bf16, Dtype::f32, 1.0f});
    ASSERT_TRUE(last.has_value() && wait_reached(writer(), *last));
    ASSERT_TRUE(wait_reached(writer(), writer().drop_source(SourceId{1})));
    std::vector<std::byte> expected(content.begin(), content.begin() + 8192);
    expected.resize(3 * 8192);
    convert(Dtype::bf16, first, Dtype::f32, std::span(expected).subspan(8192), 1.0f);
    const std::vector<std::byte> found = published(frame);
    EXPECT_TRUE(std::ranges::equal(std::span(found).first(expected.size()), expected));
  }
}

TEST_P(DeviceContract, CopiesConvertAsTheReferenceDoes) {
  for (const auto [stored, wanted, scale] :
       {CopyConversion{Dtype::f32, Dtype::bf16, 1.0f}, CopyConversion{Dtype::f8_e4m3, Dtype::f16, 0.5f},
        CopyConversion{Dtype::bf16, Dtype::f32, 1.0f}}) {
    const FrameId frame = make_attached();
    const std::uint64_t elements = 10'000;
    const std::vector<std::byte> source = pattern(elements * dtype_bits(stored) / 8, 3);
    std::vector<std::byte> expected(elements * dtype_bits(wanted) / 8);
    convert(stored, source, wanted, expected, scale);
    write(frame, 512, source, {stored, wanted, scale});
    const std::vector<std::byte> content = published(frame);
    ASSERT_EQ(content.size(), frame_bytes());
    const std::span<const std::byte> all(content);
    EXPECT_TRUE(std::ranges::equal(all.subspan(512, expected.size()), expected)) << dtype_name(stored);
    EXPECT_TRUE(all_are(all.first(512), std::byte{0}));
    EXPECT_TRUE(all_are(all.subspan(512 + expected.size()), std::byte{0}));
    owner().destroy(frame);
  }
}

TEST_P(DeviceContract, AReachedFenceMeansThatAllEarlierCopiesAreThere) {
  const FrameId frame = make_attached();
  const std::vector<std::byte> source = pattern(frame_bytes() / 64, 4);
  const std::span<const std::byte> staged = device_->stage(source);
  std::vector<FenceId> fences;
  while (fences.size() < 64) {
    const Result<FenceId> fence = writer().copy(frame, fences.size() * source.size(), staged, as_it_is);
    if (fence) {
      fences.push_back(*fence);
      continue;
    }
    ASSERT_EQ(fence.error().code, Errc::busy);
    ASSERT_TRUE(wait_reached(writer(), fences.back()));
  }
  EXPECT_TRUE(std::ranges::is_sorted(fences));
  EXPECT_EQ(std::ranges::adjacent_find(fences), fences.end());
  ASSERT_TRUE(wait_reached(writer(), fences.back()));
  const std::vector<std::byte> content = published(frame);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_TRUE(std::equal(source.begin(), source.end(),
                           content.begin() + static_cast<std::ptrdiff_t>(i * source.size())));
  }
}

TEST_P(DeviceContract, AFullQueueSaysBusyAndRecovers) {
  const FrameId frame = make_attached();
  const std::vector<std::byte> source = pattern(frame_bytes(), 5);
  const std::span<const std::byte> staged = device_->stage(source);
  FenceId last{};
  bool was_busy = false;
  std::uint64_t waiting_most = 0;
  for (int i = 0; i < 100'000 && !was_busy; ++i) {
    const Result<FenceId> fence = writer().copy(frame, 0, staged, as_it_is);
    if (fence) last = *fence;
    waiting_most = std::max(waiting_most, raw(last) - raw(*writer().reached()));
    was_busy = !fence;
    if (was_busy) {
      EXPECT_EQ(fence.error().code, Errc::busy);
    }
  }
  if (!was_busy && waiting_most < 1000) {
    ASSERT_TRUE(wait_reached(writer(), last));
    GTEST_SKIP() << "requires a device that copies more slowly than it is asked to";
  }
  EXPECT_TRUE(was_busy) << "the queue has no bound";
  ASSERT_TRUE(wait_reached(writer(), last));
  write(frame, 0, source);
  EXPECT_EQ(published(frame), source);
}

TEST_P(DeviceContract, MakingPrivateCopiesThePublishedContent) {
  const FrameId clean = make_attached();
  const std::vector<std::byte> source = pattern(frame_bytes(), 6);
  write(clean, 0, source);
  ASSERT_EQ(published(clean), source);
  const FrameId own = make_attached();
  const Result<FenceId> fence = writer().copy_frame(own, clean);
  ASSERT_TRUE(fence.has_value());
  ASSERT_TRUE(wait_reached(writer(), *fence));
  const Result<ExportedFrame> fd = owner().share(own, FrameAccess::private_writable);
  ASSERT_TRUE(fd.has_value());
  EXPECT_EQ(device_->read_as_client(fd->get()), source);
  EXPECT_TRUE(device_->fill_as_client(fd->get(), std::byte{7}));
  EXPECT_TRUE(all_are(device_->read_as_client(fd->get()), std::byte{7}));
  EXPECT_EQ(published(clean), source);
}

TEST_P(DeviceContract, APublishedFrameRefusesWriters) {
  if (!device_->seals_what_is_shared()) GTEST_SKIP() << "requires descriptors that can be sealed";
  const FrameId frame = make_attached();
  const std::vector<std::byte> source = pattern(frame_bytes(), 7);
  write(frame, 0, source);
  const Result<ExportedFrame> fd = owner().share(frame, FrameAccess::shared_read_only);
  ASSERT_TRUE(fd.has_value());
  EXPECT_FALSE(device_->fill_as_client(fd->get(), std::byte{7}));
  EXPECT_EQ(device_->read_as_client(fd->get()), source);
}

TEST_P(DeviceContract, TheSumOfAFrameIsThatOfItsBytes) {
  const FrameId frame = make_attached();
  const std::vector<std::byte> content = pattern(frame_bytes(), 11);
  write(frame, 0, content);
  static_cast<void>(published(frame));
  for (int round = 0; round < 3; ++round) {
    const Result<FenceId> fence = writer().sum(frame);
    if (!fence && fence.error().code == Errc::unsupported) {
      GTEST_SKIP()
          << "requires a writer that has the context of a GPU, and device code or a process of its own";
    }
    ASSERT_TRUE(fence.has_value());
    writer().flush();
    ASSERT_TRUE(wait_reached(writer(), *fence));
    const auto sum = writer().take_sum(*fence);
    ASSERT_TRUE(sum.has_value() && sum->has_value());
    EXPECT_EQ(**sum, checksum(content));
  }
  // One whose frame goes meanwhile is still answered, whatever it says.
  const Result<FenceId> fence = writer().sum(frame);
  ASSERT_TRUE(fence.has_value());
  writer().detach(frame);
  owner().destroy(frame);
  ASSERT_TRUE(wait_reached(writer(), *fence));
  EXPECT_TRUE(writer().take_sum(*fence).has_value());
}

TEST_P(DeviceContract, AFrameIsSharedAsOftenAsThereAreClients) {
  const FrameId frame = make_attached();
  write(frame, 0, pattern(frame_bytes(), 8));
  const std::vector<std::byte> first = published(frame);
  EXPECT_EQ(published(frame), first);
  EXPECT_EQ(published(frame), first);
}

TEST_P(DeviceContract, AnAddressableFrameIsWhatAReadWritesInto) {
  if (!owner().limits().frames_are_addressable) {
    EXPECT_TRUE(writer().address(make_attached()).empty());
    return;
  }
  const FrameId frame = make_attached();
  const std::span<std::byte> memory = writer().address(frame);
  ASSERT_EQ(memory.size(), frame_bytes());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0u);
  const std::vector<std::byte> source = pattern(frame_bytes(), 9);
  std::ranges::copy(source, memory.begin());
  EXPECT_EQ(published(frame), source);
}

TEST_P(DeviceContract, FullMeansExhaustedUntilAFrameIsDestroyed) {
  std::vector<FrameId> frames;
  EXPECT_EQ(fill(frames), CreateResult::exhausted);
  EXPECT_EQ(frames.size(), capacity_frames);
  owner().destroy(frames.back());
  frames.pop_back();
  EXPECT_EQ(fill(frames), CreateResult::exhausted);
  EXPECT_EQ(frames.size(), capacity_frames);
}

TEST_P(DeviceContract, NoHeadroomIsAnAnswerThatPasses) {
  device_.reset();
  headroom_.change_by(-static_cast<std::int64_t>(headroom_.headroom_bytes()));
  open();
  EXPECT_EQ(create_and_wait(owner()).result, CreateResult::no_headroom);
  headroom_.change_by(static_cast<std::int64_t>(gib));
  EXPECT_EQ(create_and_wait(owner()).result, CreateResult::created);
}

TEST_P(DeviceContract, ADestroyedFrameNeverShowsItsContentAgain) {
  for (std::uint64_t round = 0; round < 2 * capacity_frames; ++round) {
    const FrameId frame = make_attached();
    const std::vector<std::byte> source = pattern(frame_bytes(), round + 1);
    if (owner().limits().frames_are_addressable) {
      ASSERT_TRUE(all_are(writer().address(frame), std::byte{0}));
    }
    write(frame, 0, source);
    ASSERT_EQ(published(frame), source);
    owner().destroy(frame);
  }
}

TEST_P(DeviceContract, AClientKeepsWhatItHasMapped) {
  const FrameId frame = make_attached();
  const std::vector<std::byte> source = pattern(frame_bytes(), 10);
  write(frame, 0, source);
  const Result<ExportedFrame> exported = owner().share(frame, FrameAccess::shared_read_only);
  ASSERT_TRUE(exported.has_value());
  const UniqueFd fd(::dup(exported->get()));  // As a message would.
  device_.reset();
  const std::unique_ptr<DeviceUnderTest> client = GetParam().make(
      {.frame_bytes = frame_bytes(), .capacity_bytes = capacity_frames * frame_bytes()}, headroom_);
  EXPECT_EQ(client->read_as_client(fd.get()), source);
}

TEST_P(DeviceContract, AStormOfCreationsAndDestructionsStaysWithinTheCapacity) {
  std::mt19937_64 random(11);
  std::vector<FrameId> frames;
  std::uint64_t asked = 0;
  for (int step = 0; step < 600; ++step) {
    const bool create = random() % 2 == 0;
    if (create && frames.size() + asked < capacity_frames) {
      owner().create(static_cast<std::uint64_t>(step));
      ++asked;
    } else if (!create && !frames.empty()) {
      const std::size_t victim = random() % frames.size();
      owner().destroy(frames[victim]);
      frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(victim));
    }
    // Now and then wait for all of them, else take what is there.
    std::array<CreateDone, capacity_frames> done;
    const std::size_t wanted = step % 7 == 0 ? asked : 0;
    std::vector<CreateDone> answers = reap_all(owner(), wanted);
    ASSERT_EQ(answers.size(), wanted);
    answers.insert(answers.end(), done.begin(),
                   done.begin() + static_cast<std::ptrdiff_t>(owner().reap(done)));
    for (const CreateDone& answer : answers) {
      // Room is counted by the caller, so every creation finds its frame, however many are still dying.
      ASSERT_EQ(answer.result, CreateResult::created);
      frames.push_back(answer.frame);
    }
    asked -= answers.size();
  }
  EXPECT_EQ(reap_all(owner(), asked).size(), asked);
}

TEST_P(DeviceContract, NoDescriptorOutlivesTheDevice) {
  device_.reset();
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 3; ++round) {
    open();
    std::vector<FrameId> frames;
    static_cast<void>(fill(frames));
    for (const FrameId frame : frames) {
      ASSERT_TRUE(writer().attach(frame));
      static_cast<void>(published(frame));
    }
    for (std::size_t i = 0; i < frames.size(); i += 2) owner().destroy(frames[i]);
    device_.reset();
  }
  EXPECT_EQ(open_descriptors(), before);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceContract, testing::ValuesIn(device_factories()),
                         [](const auto& chosen) { return chosen.param.name; });

}  // namespace
}  // namespace penstock
