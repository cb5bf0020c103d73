//! Packet sockets with a receive ring shared with the kernel (packet(7), `Documentation/networking/packet_mmap.rst`).
//!
//! The ring, and not the socket's buffer, decides how many packets may wait: a buffer beyond `net.core.rmem_max`
//! is for root only, a ring is for everybody.

use std::ffi::c_int;
use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Room for a frame of the usual MTU with the kernel's header before it.
const FRAME_BYTES: usize = 2_048;
/// Frames that may wait: at 100,000 packets a second, a stall of 80 ms.
const FRAMES: usize = 8_192;
/// The kernel allocates the ring in blocks of so many frames.
const FRAMES_PER_BLOCK: usize = 32;

/// A packet socket on one interface.
pub(crate) struct PacketSocket {
    fd: OwnedFd,
    ring: NonNull<u8>,
    next: usize,
}

// SAFETY: the ring is memory of this socket alone, reached through `&mut self`.
unsafe impl Send for PacketSocket {}

/// A received frame. Its place in the ring is given back when this is dropped.
pub(crate) struct Frame<'a> {
    /// When the kernel took it from the interface, on the wall clock.
    pub(crate) at: Duration,
    /// From the link-layer header on.
    pub(crate) bytes: &'a [u8],
    status: &'a AtomicU32,
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        self.status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

impl PacketSocket {
    /// Opens one on an interface of the calling thread's namespace, for received packets of one protocol
    /// (`ETH_P_IP`, `ETH_P_IPV6`).
    ///
    /// # Errors
    /// The error of the call that failed.
    pub(crate) fn open(interface_index: u32, protocol: u16) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointers. Protocol 0: nothing is received before the ring is there.
        let fd = checked(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let count = |n: usize| u32::try_from(n).map_err(io::Error::other);
        set(
            &fd,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V2 as c_int),
        )?;
        set(&fd, libc::PACKET_IGNORE_OUTGOING, &1)?;
        let ring = libc::tpacket_req {
            tp_block_size: count(FRAMES_PER_BLOCK * FRAME_BYTES)?,
            tp_block_nr: count(FRAMES / FRAMES_PER_BLOCK)?,
            tp_frame_size: count(FRAME_BYTES)?,
            tp_frame_nr: count(FRAMES)?,
        };
        set(&fd, libc::PACKET_RX_RING, &ring)?;
        // SAFETY: a new mapping of the ring that was just set up, as long as the ring.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                FRAMES * FRAME_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ring =
            NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("mmap gave nothing"))?;
        let socket = Self { fd, ring, next: 0 };
        // SAFETY: all-zero bytes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = u16::try_from(libc::AF_PACKET).map_err(io::Error::other)?;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = i32::try_from(interface_index).map_err(io::Error::other)?;
        // SAFETY: `address` is readable for its size and outlives the call.
        checked(unsafe {
            libc::bind(
                socket.fd.as_raw_fd(),
                (&raw const address).cast(),
                length_of(&address)?,
            )
        })?;
        Ok(socket)
    }

    /// The oldest frame that waits.
    pub(crate) fn receive(&mut self) -> Option<Frame<'_>> {
        // SAFETY: `next` is below FRAMES, so the place lies in the mapping, which lives as long as `self`.
        let place = unsafe { self.ring.add(self.next * FRAME_BYTES) };
        let header: NonNull<libc::tpacket2_hdr> = place.cast();
        let status = offset_of!(libc::tpacket2_hdr, tp_status);
        // SAFETY: the status word lies in the place and is aligned; the kernel changes it, hence atomic.
        let status = unsafe { AtomicU32::from_ptr(place.add(status).cast().as_ptr()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: with TP_STATUS_USER set the place belongs to this side, its header written.
        let header = unsafe { header.read() };
        let from = usize::from(header.tp_mac).min(FRAME_BYTES);
        let length = (header.tp_snaplen as usize).min(FRAME_BYTES - from);
        // SAFETY: from and length were just held within the place.
        let bytes = unsafe { std::slice::from_raw_parts(place.add(from).as_ptr(), length) };
        self.next = (self.next + 1) % FRAMES;
        Some(Frame {
            at: Duration::new(header.tp_sec.into(), header.tp_nsec),
            bytes,
            status,
        })
    }

    /// Sends a frame as it is.
    ///
    /// # Errors
    /// The error of send(2).
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: `frame` is readable for its length and outlives the call.
        let sent =
            unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Packets that found the ring full since this was last asked.
    ///
    /// # Errors
    /// The error of getsockopt(2).
    pub(crate) fn overruns(&self) -> io::Result<u32> {
        let mut stats = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut length = length_of(&stats)?;
        // SAFETY: `stats` is writable for `length` bytes, and both outlive the call.
        checked(unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        })?;
        Ok(stats.tp_drops)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for PacketSocket {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `open` with this length, and no frame outlives `self`.
        unsafe { libc::munmap(self.ring.as_ptr().cast(), FRAMES * FRAME_BYTES) };
    }
}

fn set<T>(fd: &OwnedFd, option: c_int, value: &T) -> io::Result<()> {
    // SAFETY: `value` is readable for its size and outlives the call.
    checked(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            ptr::from_ref(value).cast(),
            length_of(value)?,
        )
    })
    .map(|_| ())
}

fn length_of<T>(_: &T) -> io::Result<libc::socklen_t> {
    libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
