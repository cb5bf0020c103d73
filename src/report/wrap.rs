//! Breaking lines at a terminal's width.

/// Breaks lines at blanks; what is broken off goes on with the line's own indent and `more`.
pub fn wrapped(text: &str, width: usize, more: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let indent: String = line.chars().take_while(|c| *c == ' ').collect();
        if line.chars().count() <= width {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let mut length = 0;
        for word in line.split_whitespace() {
            let word_length = word.chars().count();
            if length == 0 {
                out.push_str(&indent);
                length = indent.len();
            } else if length + 1 + word_length > width {
                out.push('\n');
                out.push_str(&indent);
                out.push_str(more);
                length = indent.len() + more.len();
            } else {
                out.push(' ');
                length += 1;
            }
            out.push_str(word);
            length += word_length;
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_blanks_and_keep_their_indent() {
        assert_eq!(wrapped("one two three", 8, ""), "one two\nthree\n");
        assert_eq!(wrapped("  one two", 6, "  "), "  one\n    two\n");
        assert_eq!(wrapped("short\nlines", 80, ""), "short\nlines\n");
        assert_eq!(wrapped("unbreakable", 4, ""), "unbreakable\n");
    }
}
