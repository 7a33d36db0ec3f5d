//! Claims of the thesis that do not hold here, with the reason: the known open ones, from the list
//! in `open.txt`.
//!
//! A claim that fails and is not listed is a defect, and so is a listed one that holds at full effort.

/// A claim that is open.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// The figure or table.
    pub number: &'static str,
    /// The statement of the text, as in the verdict.
    pub claim: &'static str,
    /// Why it is open: what it requires, or what contradicts it.
    pub why: &'static str,
    /// Whether the figure has runs on other assumptions, which show what it depends on.
    pub is_shown: bool,
}

/// All of them.
pub fn all() -> impl Iterator<Item = Open> {
    include_str!("open.txt")
        .split("\n\n")
        .skip(1)
        .filter_map(|text| {
            let mut lines = text.lines();
            let (head, claim, why) = (lines.next()?, lines.next()?, lines.next()?);
            let number = head.strip_suffix(" shown");
            Some(Open {
                number: number.unwrap_or(head),
                claim,
                why,
                is_shown: number.is_some(),
            })
        })
}

/// Why a claim is open, if it is.
pub fn why(number: &str, claim: &str) -> Option<&'static str> {
    let found = all().find(|open| open.number == number && open.claim == claim);
    found.map(|open| open.why)
}
