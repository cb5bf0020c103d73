//! Suggestions for names that do not exist.

/// `"; did you mean "arm-a"?"` for the nearest of `known`, or nothing when none is near.
pub(crate) fn did_you_mean<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wrong, known).map_or_else(String::new, |name| format!("; did you mean \"{name}\"?"))
}

fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_suggested() {
        let known = ["arm-a", "arm-b", "shock-absorber"];
        assert_eq!(nearest("arm_a", known), Some("arm-a"));
        assert_eq!(nearest("shock-absorbr", known), Some("shock-absorber"));
        assert_eq!(nearest("nginx", known), None);
    }
}
