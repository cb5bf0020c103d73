//! What is kept of a program's output: its beginning and its end, in bounds.

use std::collections::VecDeque;

/// The beginning and the end of a stream of bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

/// The most that is kept at each end.
const AT_EACH_END: usize = 64 * 1024;

impl Kept {
    /// Takes what comes next.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = AT_EACH_END - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend(head);
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(AT_EACH_END);
        self.tail.drain(..surplus);
    }

    /// How many bytes there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many of them are not kept.
    pub fn left_out(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// What is kept, with a line that says what was left out.
    pub fn text(&self) -> String {
        let (first, second) = self.tail.as_slices();
        let mut bytes = self.head.clone();
        if self.left_out() > 0 {
            bytes.extend(format!("\n[{} bytes left out]\n", self.left_out()).bytes());
        }
        bytes.extend(first);
        bytes.extend(second);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last line that says anything.
    pub fn last_line(&self) -> Option<String> {
        let text = self.text();
        let line = text
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty())?;
        Some(line.chars().take(MOST_OF_A_LINE).collect())
    }
}

/// A line that stands in a message is cut here.
const MOST_OF_A_LINE: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(chunks: &[&[u8]]) -> Kept {
        let mut kept = Kept::default();
        for chunk in chunks {
            kept.take(chunk);
        }
        kept
    }

    #[test]
    fn what_fits_is_kept_whole() {
        let all = kept(&[b"one\n", b"", b"two\n\n"]);
        assert_eq!(all.text(), "one\ntwo\n\n");
        assert_eq!((all.total(), all.left_out()), (9, 0));
        assert_eq!(all.last_line().as_deref(), Some("two"));
        assert_eq!(Kept::default().last_line(), None);
    }

    #[test]
    fn a_flood_keeps_its_beginning_and_its_end() {
        for chunk in [1_000, 7, AT_EACH_END * 3] {
            let line = vec![b'x'; chunk];
            let mut all = kept(&[b"first\n"]);
            for _ in 0..(AT_EACH_END * 4).div_ceil(chunk) {
                all.take(&line);
            }
            all.take(b"\nlast\n");
            let text = all.text();
            assert!(text.starts_with("first\n") && text.ends_with("\nlast\n"));
            assert!(text.len() < AT_EACH_END * 2 + 100);
            assert!(text.contains(&format!("[{} bytes left out]", all.left_out())));
            assert_eq!(all.left_out() + 2 * AT_EACH_END as u64, all.total());
            assert_eq!(all.last_line().as_deref(), Some("last"));
        }
    }
}
