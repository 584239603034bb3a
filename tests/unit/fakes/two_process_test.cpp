// SPDX-License-Identifier: Apache-2.0
// Two processes on one fake machine: they share memory through a descriptor and the figures through the ledger, and a
// killed one leaves nothing behind. The peer is this program again, started with the word `peer`.
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "dataplane/base/unique_fd.hpp"
#include "tests/unit/fakes/fake_cuda_fixture.hpp"

namespace penstock::fake {
namespace {

// One letter each way; a descriptor may travel with it.
void send_letter(int socket, char letter, int fd = -1) {
  iovec data{&letter, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) != 1) std::abort();
}

// 0 at the end of the peer.
char receive_letter(int socket, UniqueFd* fd = nullptr) {
  char letter = 0;
  iovec data{&letter, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return 0;
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr && fd != nullptr) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(header), sizeof received);
    fd->reset(received);
  }
  return letter;
}

// The peer: 'm' maps what comes read-only and answers its first byte; 'w' writes into it, which must kill it; 'u' unmaps;
// 'c' makes a frame and sends its descriptor; 'q' ends without giving anything back.
int run_peer(int socket) {
  if (cuInit(0) != cuda_success) return 2;
  CudaAddress address = 0;
  for (;;) {
    UniqueFd fd;
    switch (receive_letter(socket, &fd)) {
      case 'm': {
        CudaMemHandle handle = 0;
        auto* value = reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd.get()));
        if (cuMemImportFromShareableHandle(&handle, value, cuda_mem_handle_posix_fd) != cuda_success)
          return 3;
        address = reserve(frame_bytes);
        if (cuMemMap(address, frame_bytes, 0, handle, 0) != cuda_success) return 4;
        cuMemRelease(handle);
        set_access(address, frame_bytes, cuda_mem_access_read);
        send_letter(socket, *reinterpret_cast<const char*>(address));
        break;
      }
      case 'w': *reinterpret_cast<volatile char*>(address) = 'w'; return 5;
      case 'u': send_letter(socket, cuMemUnmap(address, frame_bytes) == cuda_success ? 'u' : '?'); break;
      case 'c': {
        int exported = -1;
        cuMemExportToShareableHandle(&exported, create(), cuda_mem_handle_posix_fd, 0);
        send_letter(socket, 'c', exported);
        ::close(exported);
        break;
      }
      default: return 0;
    }
  }
}

class TwoProcesses : public FakeCuda {
 protected:
  void SetUp() override {
    FakeCuda::SetUp();
    std::array<int, 2> pair{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()), 0);
    socket_ = UniqueFd(pair[0]);
    const UniqueFd theirs(pair[1]);
    peer_ = ::fork();
    ASSERT_GE(peer_, 0);
    if (peer_ == 0) {
      if (::dup2(theirs.get(), 3) < 0) ::_exit(9);
      ::execl("/proc/self/exe", "unit_fake_processes", "peer", nullptr);
      ::_exit(9);
    }
  }
  void TearDown() override {
    socket_.reset();
    if (peer_ > 0) {
      EXPECT_EQ(end(), 0);
    }
    FakeCuda::TearDown();
  }
  // The status of wait().
  int end() {
    int status = 0;
    EXPECT_EQ(::waitpid(peer_, &status, 0), peer_);
    peer_ = 0;
    return status;
  }
  void kill_peer() {
    ASSERT_EQ(::kill(peer_, SIGKILL), 0);
    EXPECT_EQ(WTERMSIG(end()), SIGKILL);
  }

  UniqueFd socket_;
  pid_t peer_ = 0;
};

struct SharedFrame {
  CudaAddress address = 0;
  UniqueFd fd;
};

SharedFrame shared_frame() {
  SharedFrame frame;
  const CudaMemHandle handle = create();
  int fd = -1;
  EXPECT_EQ(cuMemExportToShareableHandle(&fd, handle, cuda_mem_handle_posix_fd, 0), cuda_success);
  frame.fd = UniqueFd(fd);
  frame.address = reserve(frame_bytes);
  EXPECT_EQ(cuMemMap(frame.address, frame_bytes, 0, handle, 0), cuda_success);
  EXPECT_EQ(cuMemRelease(handle), cuda_success);
  EXPECT_EQ(set_access(frame.address, frame_bytes, cuda_mem_access_read_write), cuda_success);
  *reinterpret_cast<char*>(frame.address) = 'p';
  return frame;
}

TEST_F(TwoProcesses, SeeTheSameBytesAndTheMemoryOutlivesItsMaker) {
  SharedFrame frame = shared_frame();
  send_letter(socket_.get(), 'm', frame.fd.get());
  EXPECT_EQ(receive_letter(socket_.get()), 'p');
  EXPECT_EQ(penstock_fake_used_bytes(0), frame_bytes) << "one frame, whoever maps it";
  frame.fd.reset();
  give_back(frame.address);
  EXPECT_EQ(penstock_fake_used_bytes(0), frame_bytes) << "the peer's mapping keeps it";
  send_letter(socket_.get(), 'u');
  EXPECT_EQ(receive_letter(socket_.get()), 'u');
  EXPECT_EQ(penstock_fake_used_bytes(0), 0U);
}

TEST_F(TwoProcesses, AStrayWriteKillsItsWriterAlone) {
  SharedFrame frame = shared_frame();
  send_letter(socket_.get(), 'm', frame.fd.get());
  EXPECT_EQ(receive_letter(socket_.get()), 'p');
  send_letter(socket_.get(), 'w');
  EXPECT_EQ(receive_letter(socket_.get()), 0);
  EXPECT_TRUE(died_of_a_fault(end()));
  EXPECT_EQ(*reinterpret_cast<const char*>(frame.address), 'p');
  give_back(frame.address);
}

TEST_F(TwoProcesses, AKilledMapperGivesItsMemoryBack) {
  SharedFrame frame = shared_frame();
  send_letter(socket_.get(), 'm', frame.fd.get());
  EXPECT_EQ(receive_letter(socket_.get()), 'p');
  frame.fd.reset();
  give_back(frame.address);
  EXPECT_EQ(penstock_fake_used_bytes(0), frame_bytes);
  kill_peer();
  EXPECT_EQ(penstock_fake_used_bytes(0), 0U);
}

TEST_F(TwoProcesses, ADescriptorInASocketsQueueKeepsMemoryOfADeadMaker) {
  send_letter(socket_.get(), 'c');
  send_letter(socket_.get(), 'q');  // Nothing is received until the maker is dead.
  EXPECT_EQ(end(), 0);
  EXPECT_EQ(penstock_fake_used_bytes(0), frame_bytes);
  UniqueFd fd;
  EXPECT_EQ(receive_letter(socket_.get(), &fd), 'c');
  CudaMemHandle handle = 0;
  auto* value = reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd.get()));
  EXPECT_EQ(cuMemImportFromShareableHandle(&handle, value, cuda_mem_handle_posix_fd), cuda_success);
  fd.reset();
  EXPECT_EQ(penstock_fake_used_bytes(0), frame_bytes);
  EXPECT_EQ(cuMemRelease(handle), cuda_success);
}

TEST_F(TwoProcesses, ShareTheMemoryOfADevice) {
  ::setenv("PENSTOCK_FAKE_DEVICE_BYTES", "4MiB", 1);
  penstock_fake_read_settings();
  send_letter(socket_.get(), 'c');
  UniqueFd fd;
  EXPECT_EQ(receive_letter(socket_.get(), &fd), 'c');
  fd.reset();
  const CudaMemProperties properties = device_memory();
  CudaMemHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, frame_bytes, &properties, 0), cuda_error_out_of_memory);
  kill_peer();
  EXPECT_EQ(cuMemCreate(&handle, frame_bytes, &properties, 0), cuda_success);
  EXPECT_EQ(cuMemRelease(handle), cuda_success);
  ::unsetenv("PENSTOCK_FAKE_DEVICE_BYTES");
  penstock_fake_read_settings();
}

}  // namespace
}  // namespace penstock::fake

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "peer") == 0) return penstock::fake::run_peer(3);
  // Of this run alone; peers inherit the name.
  char path[] = "/tmp/fake-ledger-XXXXXX";
  const penstock::UniqueFd ledger(::mkstemp(path));
  if (!ledger) return 1;
  ::setenv("PENSTOCK_FAKE_LEDGER", path, 1);
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  ::unlink(path);
  return result;
}
