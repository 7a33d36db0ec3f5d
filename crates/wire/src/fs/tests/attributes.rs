//! Golden bytes of operations on sizes, names and extended attributes that format 8 has in addition.

use super::*;

#[test]
fn golden_operations_on_attributes() {
    let object = ObjectId(9);
    let cases = [
        (
            Operation::SetXattr {
                object,
                name: b"user.a".to_vec(),
                value: vec![1, 2],
                mode: SetXattrMode::Replace,
            },
            "33 0900000000000000 06000000 757365722e61 02000000 0102 02",
        ),
        (
            Operation::RemoveXattr {
                object,
                name: b"user.a".to_vec(),
            },
            "34 0900000000000000 06000000 757365722e61",
        ),
        (
            Operation::GetXattr {
                object,
                name: b"user.a".to_vec(),
            },
            "35 0900000000000000 06000000 757365722e61",
        ),
        (Operation::ListXattrs { object }, "36 0900000000000000"),
        (
            Operation::Exchange {
                first: Place {
                    base: object,
                    path: b"a".to_vec(),
                },
                second: Place {
                    base: ObjectId::ROOT,
                    path: b"b".to_vec(),
                },
            },
            "37 0900000000000000 01000000 61 0100000000000000 01000000 62",
        ),
        (
            Operation::Grow { object, size: 5 },
            "32 0900000000000000 0500000000000000",
        ),
    ];
    for (operation, expected) in cases {
        golden(&operation, expected);
    }
}

#[test]
fn golden_results_on_xattrs() {
    golden(&ReplyBody::Xattr(vec![1, 2]), "29 02000000 0102");
    let names = [b"user.a", b"user.b"].map(|name| XattrName {
        name: name.to_vec(),
    });
    let expected = "2a 02000000 06000000 757365722e61 06000000 757365722e62";
    golden(&ReplyBody::XattrNames(names.to_vec()), expected);
}
