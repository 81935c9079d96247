//! Ids, paths and folder names.

use super::*;
use crate::checkpoint::identity::random;
use crate::checkpoint::names::{folder_of, table_of};

#[test]
fn ids_ascend_whatever_the_clock_does_and_read_back() {
    let mut last: Option<CheckpointId> = None;
    for now in [
        1_796_051_963_123,
        1_796_051_963_123,
        1_796_051_963_122,
        0,
        -5,
        1_796_051_963_999,
        i64::MAX,
        i64::MAX,
    ] {
        let id = CheckpointId::new(now, last.as_ref(), random());
        assert_eq!(CheckpointId::parse(id.as_str()).as_ref(), Some(&id));
        let at_end = last
            .as_ref()
            .is_some_and(|last| last.as_str().starts_with("99991231T235959.999Z"));
        assert!(last.is_none_or(|last| last < id || at_end), "{id}");
        last = Some(id);
    }
    assert_eq!(
        CheckpointId::new(1_796_051_963_123, None, 0x9f3a01bc).as_str(),
        "20261130T151923.123Z-9f3a01bc"
    );
}

#[test]
fn a_clock_that_stands_counts_on_in_milliseconds_over_every_end_of_month() {
    let end_of_february = 1_709_251_199_999;
    let last = CheckpointId::new(end_of_february, None, 1);
    assert_eq!(
        CheckpointId::new(0, Some(&last), 2).as_str(),
        "20240301T000000.000Z-00000002"
    );
}

#[test]
fn other_texts_are_no_ids() {
    for text in [
        "",
        "20261130T151923.123Z",
        "20261130T151923.123Z-9F3A01BC",
        "20261330T151923.123Z-9f3a01bc",
        "../20261130T151923.123Z-9f3a01b",
    ] {
        assert_eq!(CheckpointId::parse(text), None, "{text}");
    }
}

#[test]
fn folder_names_are_plain_paths_and_read_back() {
    let long = "é".repeat(400);
    let names = [
        "t", "T", "by.owner", "..", "", "a/b", "a%2fb", "CON", "x~", "über", "-", &long, "a\0b\n", "~/~/",
    ];
    for schema in ["public", "cenote_state", "My Schema"] {
        let mut folders = std::collections::BTreeSet::new();
        for name in names {
            let folder = folder_of(schema, name);
            assert!(
                BlobPath::parse(&format!("{folder}/x")).is_some() || name == long,
                "{folder}"
            );
            assert_eq!(
                table_of(&folder),
                Some((schema.to_string(), name.to_string())),
                "{folder}"
            );
            assert!(
                folders.insert(folder.to_lowercase()),
                "{folder} twice where case does not tell"
            );
        }
    }
    assert_eq!(folder_of("public", "by_owner"), "public.by_owner");
    assert_eq!(folder_of("public", "Ü"), "public.%c3%9c");
}

#[test]
fn paths_that_lead_elsewhere_are_none() {
    for path in [
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/..",
        "../a",
        "a/./b",
        "a b",
        "a\\b",
        "a:b",
        "C:",
        "a\0",
        "é",
        &"a".repeat(300),
    ] {
        assert_eq!(BlobPath::parse(path), None, "{path}");
    }
}

#[test]
fn cuts_of_key_groups_are_all_of_them() {
    for buckets in 0..300 {
        let cut = KeyGroups::cut(buckets);
        assert_eq!(cut.len(), buckets.clamp(1, 256));
        assert_eq!(crate::checkpoint::manifest::check_coverage(cut.into_iter()), Ok(()));
    }
}
