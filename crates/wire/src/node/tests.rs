use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use super::files::{AuthorityFile, NodeFile, Register, Revoked, Unreadable};
use super::*;
use crate::codec::tests::{golden, hex};

fn certificate() -> Certificate {
    Certificate {
        serial: 0x0807_0605_0403_0201,
        expires: u64::MAX,
        key: [0xaa; 32],
        authority: [0xbb; 32],
        name: "node7".to_string(),
        roles: vec![CLIENT.to_string(), "io3".to_string()],
        signature: [0xcc; 64],
    }
}

#[test]
fn certificates_have_their_golden_bytes_both_ways() {
    let text = "01 0102030405060708 ffffffffffffffff".to_string()
        + &"aa".repeat(32)
        + &"bb".repeat(32)
        + "05000000 6e6f646537 02000000 06000000 636c69656e74 03000000 696f33"
        + &"cc".repeat(64);
    golden(&certificate(), &text);
    let signed = certificate().signed_bytes();
    assert_eq!(&signed[..30], SIGNED_CONTEXT);
    let bytes = certificate().to_bytes();
    assert_eq!(
        signed[30..],
        bytes[..bytes.len() - 64],
        "all but the signature"
    );
}

#[test]
fn the_longest_certificate_has_as_many_bytes_as_are_stated() {
    let longest = Certificate {
        name: "n".repeat(64),
        roles: (10..26).map(|n| format!("{n}{}", "r".repeat(62))).collect(),
        ..certificate()
    };
    let bytes = longest.to_bytes();
    assert_eq!(bytes.len(), MAX_CERTIFICATE_BYTES);
    assert_eq!(Certificate::from_bytes(&bytes), Ok(longest));
}

#[test]
fn what_no_authority_would_sign_is_refused() {
    let refuses = |change: &dyn Fn(&mut Certificate)| {
        let mut bad = certificate();
        change(&mut bad);
        assert!(Certificate::from_bytes(&bad.to_bytes()).is_err(), "{bad:?}");
    };
    for name in ["", ".hidden", "two words", "\x1b[2J", "é", &"n".repeat(65)] {
        refuses(&|bad| bad.name = name.to_string());
        refuses(&|bad| bad.roles = vec![name.to_string()]);
    }
    refuses(&|bad| bad.roles.clear());
    refuses(&|bad| bad.roles.reverse());
    refuses(&|bad| bad.roles = vec!["io3".to_string(); 2]);
    refuses(&|bad| bad.roles = (10..27).map(|n| format!("io{n}")).collect());
    let mut later = certificate().to_bytes();
    later[0] = CERTIFICATE_FORMAT + 1;
    assert!(Certificate::from_bytes(&later).is_err());
}

#[test]
fn files_have_their_golden_texts_and_no_others() {
    let digits = hex(&certificate().to_bytes());
    let key = "0123456789abcdef".repeat(4);
    let node = format!("causeway-node 1\ncertificate {digits}\nkey {key}\n");
    assert_eq!(
        format!("{}{key}\n", NodeFile::head(&certificate())),
        node,
        "as it is written"
    );
    let read = NodeFile::parse(&node).map_err(|_| ()).unwrap();
    assert!(read.certificate == certificate() && read.key == key);

    let authority = format!("causeway-authority 1\nkey {key}\n");
    assert_eq!(format!("{}{key}\n", AuthorityFile::head()), authority);
    assert!(AuthorityFile::parse(&authority).is_ok_and(|read| read.key == key));

    let revoked = "causeway-revoked 1\n00000000000000ff node7\n0102030405060708 io-9\n";
    let read = Revoked::parse(revoked).unwrap();
    assert_eq!(read.to_text(), revoked);
    assert!(read.has(0xff) && read.has(0x0102_0304_0506_0708) && !read.has(1));
    assert_eq!(
        Revoked::parse("causeway-revoked 1\n"),
        Ok(Revoked::default())
    );

    let register = format!("causeway-nodes 1\ncertificate {digits}\n");
    let read = Register::parse(&register).unwrap();
    assert_eq!(read.certificates, [certificate()]);
    assert_eq!(read.to_text(), register);

    for text in [&node, &authority, revoked, &register] {
        for changed in [
            text.replacen('1', "2", 1),
            text.replace('\n', "\r\n"),
            text.trim_end().to_string(),
            format!("{text}\n"),
            text.replace("0123", "012g")
                .replace("cccc", "cccg")
                .replace("ff n", "fg n"),
            text.to_uppercase(),
        ] {
            assert!(
                NodeFile::parse(&changed).is_err()
                    && AuthorityFile::parse(&changed).is_err()
                    && Revoked::parse(&changed).is_err()
                    && Register::parse(&changed).is_err(),
                "{changed}"
            );
        }
    }
    let bad = "causeway-revoked 1\n00000000000000ff node7\nff node8\n";
    assert_eq!(Revoked::parse(bad), Err(Unreadable::Otherwise));
    let bad = "causeway-revoked 1\n00000000000000ff node7\nnode8\n";
    assert!(matches!(
        Revoked::parse(bad),
        Err(Unreadable::Line { line: 3, .. })
    ));
}
