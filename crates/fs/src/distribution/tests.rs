use proptest::prelude::*;

use super::*;

fn striping(strip: u64, servers: u64) -> Striping {
    Striping { strip, servers }
}

/// Byte by byte: where file byte `offset` lies.
fn slow_locate(strip: u64, servers: u64, offset: u64) -> (usize, u64) {
    let (mut used, mut at) = (vec![0; servers as usize], (0, 0));
    for byte in 0..=offset {
        let server = (byte / strip % servers) as usize;
        at = (server, used[server]);
        used[server] += 1;
    }
    at
}

proptest! {
    #[test]
    fn single_offsets_agree_with_dealing_byte_by_byte(
        strip in 1u64..9, servers in 1u64..5, offset in 0u64..200,
    ) {
        let striping = striping(strip, servers);
        let (server, at) = striping.locate(offset);
        prop_assert_eq!((server, at), slow_locate(strip, servers, offset));
        prop_assert_eq!(striping.file_offset(server, at), offset);
    }

    #[test]
    fn sizes_agree_with_counting(strip in 1u64..9, servers in 1u64..5, size in 0u64..200) {
        let striping = striping(strip, servers);
        let mut counted = vec![0; servers as usize];
        for byte in 0..size {
            counted[striping.locate(byte).0] += 1;
        }
        let sizes: Vec<u64> = (0..servers as usize).map(|s| striping.datafile_size(s, size)).collect();
        prop_assert_eq!(&sizes, &counted);
        let ends = (0..servers as usize).filter(|s| sizes[*s] > 0).map(|s| striping.file_offset(s, sizes[s] - 1) + 1);
        prop_assert_eq!(ends.max().unwrap_or(0), size);
    }

    #[test]
    fn split_deals_every_byte_once_in_memory_order(
        strip in 1u64..9,
        servers in 1u64..5,
        regions in prop::collection::vec((0u64..100, 0u64..40), 0..12),
    ) {
        let striping = striping(strip, servers);
        let regions: Vec<Region> =
            regions.into_iter().map(|(offset, len)| Region { offset, len }).collect();
        let shares = striping.split(&regions);
        // What each memory byte should hold: (server, datafile offset).
        let wanted: Vec<(usize, u64)> = regions
            .iter()
            .flat_map(|r| (r.offset..r.offset + r.len).map(|byte| striping.locate(byte)))
            .collect();
        let mut found = vec![None; wanted.len()];
        for (server, share) in shares.iter().enumerate() {
            let file = share.regions.iter().flat_map(|r| r.offset..r.offset + r.len);
            let memory = share.memory.iter().flat_map(|r| r.offset..r.offset + r.len);
            let pairs: Vec<(u64, u64)> = file.zip(memory).collect();
            prop_assert_eq!(pairs.len() as u64, share.len);
            prop_assert!(pairs.windows(2).all(|two| two[0].1 < two[1].1));
            for (at, byte) in pairs {
                prop_assert!(found[byte as usize].replace((server, at)).is_none());
            }
        }
        let wanted: Vec<_> = wanted.into_iter().map(Some).collect();
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn compact_describes_the_same_bytes(
        offset in 0u64..50, len in 1u64..9, gap in 0u64..9, count in 0u64..9, odd in any::<bool>(),
    ) {
        let mut regions: Vec<Region> =
            (0..count).map(|i| Region { offset: offset + i * (len + gap), len }).collect();
        if odd && let Some(last) = regions.last_mut() {
            last.len += 1;
        }
        let expanded = match compact(regions.clone()) {
            Regions::Here(list) => list,
            Regions::Strided { offset, len, stride, count } => {
                prop_assert!(!odd);
                (0..count).map(|i| Region { offset: offset + i * stride, len }).collect()
            }
            Regions::There { .. } => unreachable!("compact keeps lists here"),
        };
        prop_assert_eq!(expanded, regions);
    }
}

#[test]
fn the_largest_offsets_do_not_overflow() {
    for (strip, servers) in [(1 << 20, 4), (1 << 30, 1024), (4096, 1), (16384, 3)] {
        let striping = striping(strip, servers);
        for offset in [MAX_FILE_BYTES, MAX_FILE_BYTES - 1, MAX_FILE_BYTES - strip] {
            let (server, at) = striping.locate(offset);
            assert_eq!(striping.file_offset(server, at), offset);
        }
        let last = Region {
            offset: MAX_FILE_BYTES - 3 * strip,
            len: 3 * strip,
        };
        let shares = striping.split(&[last]);
        assert_eq!(shares.iter().map(|share| share.len).sum::<u64>(), 3 * strip);
        assert!(striping.file_offset(servers as usize - 1, u64::MAX) >= MAX_FILE_BYTES);
    }
}
