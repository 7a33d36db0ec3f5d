//! Names and sizes of a file system as sequential objects.

use std::collections::BTreeMap;

use super::Model;

/// A few names of one directory, all absent at first.
#[derive(Debug, Default)]
pub struct Names;

/// A change or a look-up of names, which are small numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameCall {
    /// Makes a file that must not exist.
    Create(u8),
    /// Looks up to which object a name refers.
    Lookup(u8),
    /// Removes a name.
    Unlink(u8),
    /// Gives the object of the first name the second one, replacing the object of that name if there is one.
    Rename(u8, u8),
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameReturn {
    /// It is done.
    Done,
    /// The name refers to this object, or the created file is this one.
    Object(u64),
    /// The name does not exist.
    Absent,
    /// The name exists.
    Exists,
}

/// What a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// An object of this number.
    Object(u64),
    /// An object whose number no result has shown yet.
    Unseen,
}

impl Model for Names {
    type State = BTreeMap<u8, Standing>;
    type Call = NameCall;
    type Return = NameReturn;

    fn start(&self) -> Self::State {
        BTreeMap::new()
    }

    fn step(
        &self,
        state: &Self::State,
        call: &NameCall,
        returned: Option<&NameReturn>,
    ) -> Vec<Self::State> {
        let with = |changes: &[(u8, Option<Standing>)]| {
            let mut after = state.clone();
            for (name, standing) in changes {
                match standing {
                    Some(standing) => after.insert(*name, *standing),
                    None => after.remove(name),
                };
            }
            vec![after]
        };
        let same = || vec![state.clone()];
        match (*call, state.get(call.name()), returned) {
            (NameCall::Create(_), Some(_), None | Some(NameReturn::Exists)) => same(),
            (NameCall::Create(name), None, Some(NameReturn::Object(object))) => {
                // Numbers are never used again while they are in use.
                match state.values().any(|s| *s == Standing::Object(*object)) {
                    true => Vec::new(),
                    false => with(&[(name, Some(Standing::Object(*object)))]),
                }
            }
            (NameCall::Create(name), None, None) => with(&[(name, Some(Standing::Unseen))]),
            (NameCall::Lookup(_), None, None | Some(NameReturn::Absent)) => same(),
            (NameCall::Lookup(_), Some(_), None) => same(),
            (NameCall::Lookup(name), Some(standing), Some(NameReturn::Object(object))) => {
                match standing {
                    Standing::Object(known) if known == object => same(),
                    Standing::Unseen
                        if !state.values().any(|s| *s == Standing::Object(*object)) =>
                    {
                        with(&[(name, Some(Standing::Object(*object)))])
                    }
                    _ => Vec::new(),
                }
            }
            (NameCall::Unlink(_) | NameCall::Rename(..), None, None | Some(NameReturn::Absent)) => {
                same()
            }
            (NameCall::Unlink(name), Some(_), None | Some(NameReturn::Done)) => {
                with(&[(name, None)])
            }
            (NameCall::Rename(from, to), Some(s), None | Some(NameReturn::Done)) => {
                with(&[(from, None), (to, Some(*s))])
            }
            _ => Vec::new(),
        }
    }
}

impl NameCall {
    /// The name that decides the outcome.
    fn name(&self) -> &u8 {
        match self {
            Self::Create(name) | Self::Lookup(name) | Self::Unlink(name) => name,
            Self::Rename(from, _) => from,
        }
    }
}

/// The size of a file, 0 at first.
#[derive(Debug, Default)]
pub struct Size;

/// A change of a size, or a read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeCall {
    /// Cuts or grows.
    Truncate(u64),
    /// Writes up to this byte: the file is at least so long afterwards.
    Write(u64),
    /// Reads the size.
    Stat,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeReturn {
    /// It is done.
    Done,
    /// The size is this.
    Is(u64),
}

impl Model for Size {
    type State = u64;
    type Call = SizeCall;
    type Return = SizeReturn;

    fn start(&self) -> u64 {
        0
    }

    fn step(&self, state: &u64, call: &SizeCall, returned: Option<&SizeReturn>) -> Vec<u64> {
        match (*call, returned) {
            (SizeCall::Truncate(size), None | Some(SizeReturn::Done)) => vec![size],
            (SizeCall::Write(end), None | Some(SizeReturn::Done)) => vec![end.max(*state)],
            (SizeCall::Stat, None) => vec![*state],
            (SizeCall::Stat, Some(SizeReturn::Is(size))) if size == state => vec![*state],
            _ => Vec::new(),
        }
    }
}
