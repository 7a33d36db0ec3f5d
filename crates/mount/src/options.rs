//! Options of a mount, as `-o` of mount(8) has them.

use std::str::FromStr;

use fuser::{MountOption, SessionACL};

use crate::request_size::MAX_READ;

/// Options of a mount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Flags for the kernel.
    flags: Vec<MountOption>,
    /// Other users may use the mount.
    pub allow_other: bool,
    /// Root may use the mount, too.
    pub allow_root: bool,
    /// Options of this file system, which its command reads: name and value.
    pub others: Vec<(String, String)>,
}

/// An unknown option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no mount option `{option}`")]
pub struct UnknownOption {
    /// The option as it was written.
    pub option: String,
}

/// Options that mount(8) and fstab pass on, and that have no meaning here.
const IGNORED: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "group",
    "nofail",
    "_netdev",
    "relatime",
    "strictatime",
    "nodiratime",
    "diratime",
];
/// Options of this file system.
const OWN: &[&str] = &["config", "via"];

impl FromStr for Options {
    type Err = UnknownOption;

    fn from_str(text: &str) -> Result<Self, UnknownOption> {
        let mut options = Self::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            options.add(option)?;
        }
        Ok(options)
    }
}

impl Options {
    fn add(&mut self, option: &str) -> Result<(), UnknownOption> {
        let flag = match option {
            "allow_other" => {
                self.allow_other = true;
                return Ok(());
            }
            "allow_root" => {
                self.allow_root = true;
                return Ok(());
            }
            // The kernel always checks permissions.
            "default_permissions" => return Ok(()),
            "ro" => MountOption::RO,
            "rw" => MountOption::RW,
            "exec" => MountOption::Exec,
            "noexec" => MountOption::NoExec,
            "suid" => MountOption::Suid,
            "nosuid" => MountOption::NoSuid,
            "dev" => MountOption::Dev,
            "nodev" => MountOption::NoDev,
            "atime" => MountOption::Atime,
            "noatime" => MountOption::NoAtime,
            "sync" => MountOption::Sync,
            "async" => MountOption::Async,
            "dirsync" => MountOption::DirSync,
            _ => return self.add_other(option),
        };
        // Of two options that contradict each other the later one counts, as in mount(8).
        let opposite = opposite(&flag);
        self.flags
            .retain(|known| *known != flag && Some(known) != opposite.as_ref());
        self.flags.push(flag);
        Ok(())
    }

    fn add_other(&mut self, option: &str) -> Result<(), UnknownOption> {
        if IGNORED.contains(&option) || option.starts_with("x-") {
            return Ok(());
        }
        match option.split_once('=') {
            Some((name, value)) if OWN.contains(&name) => {
                self.others.push((name.to_owned(), value.to_owned()));
                Ok(())
            }
            _ => Err(UnknownOption {
                option: option.to_owned(),
            }),
        }
    }

    /// The kernel's options of a mount of the file system with this name.
    pub(crate) fn for_kernel(&self, name: &str) -> Vec<MountOption> {
        let mut options = self.flags.clone();
        options.push(MountOption::DefaultPermissions);
        // A comma would begin another option.
        options.push(MountOption::FSName(name.replace([',', '\\'], "_")));
        options.push(MountOption::CUSTOM("subtype=causeway".to_owned()));
        // Otherwise a read has as many pages as the largest write.
        options.push(MountOption::CUSTOM(format!("max_read={MAX_READ}")));
        options
    }

    /// The users who may use the mount.
    pub(crate) fn access(&self) -> SessionACL {
        match (self.allow_other, self.allow_root) {
            (true, _) => SessionACL::All,
            (false, true) => SessionACL::RootAndOwner,
            (false, false) => SessionACL::Owner,
        }
    }
}

fn opposite(flag: &MountOption) -> Option<MountOption> {
    Some(match flag {
        MountOption::RO => MountOption::RW,
        MountOption::RW => MountOption::RO,
        MountOption::Exec => MountOption::NoExec,
        MountOption::NoExec => MountOption::Exec,
        MountOption::Suid => MountOption::NoSuid,
        MountOption::NoSuid => MountOption::Suid,
        MountOption::Dev => MountOption::NoDev,
        MountOption::NoDev => MountOption::Dev,
        MountOption::Atime => MountOption::NoAtime,
        MountOption::NoAtime => MountOption::Atime,
        MountOption::Sync => MountOption::Async,
        MountOption::Async => MountOption::Sync,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_mount() {
        let options: Options = "rw,,ro,allow_other,config=/a,_netdev,x-systemd.automount"
            .parse()
            .expect("all of them exist");
        assert_eq!(options.flags, [MountOption::RO]);
        assert!(options.allow_other && !options.allow_root);
        assert_eq!(options.others, [("config".to_owned(), "/a".to_owned())]);
        for unknown in ["allow_others", "ro=1", "subtype=x", "fd=3"] {
            let error = Options::from_str(unknown).expect_err("there is none");
            assert_eq!(error.option, unknown);
        }
    }
}
