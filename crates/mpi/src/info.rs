//! Info objects: keys and values, in the order in which they were set first (MPI 5.0 chapter 10).

use crate::abi;
use crate::error::{Error, Result};

/// An info object.
#[derive(Debug, Clone, Default)]
pub struct Info {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

fn check_key(key: &[u8]) -> Result<()> {
    match key.is_empty() || key.len() >= abi::MAX_INFO_KEY as usize {
        true => Err(Error::new(
            abi::ERR_INFO_KEY,
            format!("a key of {} bytes", key.len()),
        )),
        false => Ok(()),
    }
}

impl Info {
    /// Sets a value.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        if value.len() >= abi::MAX_INFO_VAL as usize {
            let text = format!("a value of {} bytes", value.len());
            return Err(Error::new(abi::ERR_INFO_VALUE, text));
        }
        self.put(key, value);
        Ok(())
    }

    /// Sets the values of another one's keys; those of other keys stay.
    pub fn update(&mut self, with: &Info) {
        for (key, value) in &with.pairs {
            self.put(key, value);
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        match self.pairs.iter_mut().find(|(other, _)| other == key) {
            Some((_, old)) => *old = value.to_vec(),
            None => self.pairs.push((key.to_vec(), value.to_vec())),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        check_key(key)?;
        let found = self.pairs.iter().find(|(other, _)| other == key);
        Ok(found.map(|(_, value)| value.as_slice()))
    }

    /// Removes a key.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        check_key(key)?;
        let at = self.pairs.iter().position(|(other, _)| other == key);
        let at = at.ok_or_else(|| {
            let text = format!("no key {}", String::from_utf8_lossy(key));
            Error::new(abi::ERR_INFO_NOKEY, text)
        })?;
        self.pairs.remove(at);
        Ok(())
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// A key by its place.
    pub fn key(&self, at: i32) -> Result<&[u8]> {
        let found = usize::try_from(at).ok().and_then(|at| self.pairs.get(at));
        let (key, _) = found.ok_or_else(|| {
            let text = format!("key {at} of {}", self.pairs.len());
            Error::new(abi::ERR_ARG, text)
        })?;
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_places() {
        let mut info = Info::default();
        info.set(b"b", b"1").expect("a key");
        info.set(b"a", b"2").expect("a key");
        info.set(b"b", b"3").expect("a key");
        assert_eq!(info.key(0).expect("there are two"), b"b");
        assert_eq!(info.get(b"b").expect("a key"), Some(&b"3"[..]));
        info.delete(b"b").expect("the key exists");
        assert_eq!(info.key(0).expect("there is one"), b"a");
        assert_eq!(
            info.delete(b"b").expect_err("the key is deleted").code(),
            abi::ERR_INFO_NOKEY
        );
        assert_eq!(
            info.set(b"", b"").expect_err("no key").code(),
            abi::ERR_INFO_KEY
        );
        assert_eq!(info.key(1).expect_err("there is one").code(), abi::ERR_ARG);
    }
}
