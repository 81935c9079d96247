//! Truncation at every byte and damage to every byte of small logs.

use super::*;

/// Opens a folder with these files and reads all; also says whether anything on disk was changed by that.
fn outcome(folder: &Path, files: &BTreeMap<String, Vec<u8>>) -> (Result<Vec<Record>>, bool) {
    restore(folder, files);
    let outcome = read(folder);
    (outcome, contents(folder) != *files)
}

fn assert_refused(folder: &Path, files: &BTreeMap<String, Vec<u8>>, case: &str) -> Error {
    let (outcome, changed) = outcome(folder, files);
    let error = match outcome {
        Ok(records) => panic!("{case}: opened with {} records", records.len()),
        Err(error) => error,
    };
    assert!(
        matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported),
        "{case}: {error:?}"
    );
    assert!(!changed, "{case}: something was changed on disk");
    error
}

/// A log in three segments, records 1 to 11, the last five of them written with one sync.
fn sample(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    write(folder, 1300, &[1, 2, 4, 7, 12]);
    let files = contents(folder);
    let frames: Vec<usize> = segment_names(folder)
        .iter()
        .map(|name| frame_ends(&files[name]).len())
        .collect();
    assert!(frames.len() == 3 && frames[2] >= 3, "{frames:?}");
    files
}

#[test]
fn last_segment_cut_at_any_byte_yields_the_whole_records_before() {
    let folder = tempfile::tempdir().unwrap();
    let files = sample(folder.path());
    let name = files.keys().rfind(|name| name.ends_with(".wal")).unwrap();
    let first: u64 = name[..20].parse().unwrap();
    let ends = frame_ends(&files[name]);
    assert!(ends.len() >= 3);
    for length in 0..files[name].len() {
        let mut files = files.clone();
        files.get_mut(name).unwrap().truncate(length);
        if length < HEADER {
            assert_refused(folder.path(), &files, &format!("length {length}"));
            continue;
        }
        restore(folder.path(), &files);
        let (mut log, replay) = Log::open(folder.path(), options(64 << 20)).unwrap();
        let whole = ends.iter().filter(|end| **end <= length).count() as u64;
        let kept = ends[..whole as usize].last().copied().unwrap_or(HEADER);
        let cut = (kept < length).then(|| Cut {
            file: folder.path().join(name),
            offset: kept as u64,
            bytes: (length - kept) as u64,
        });
        assert_eq!(replay.cut(), cut.as_ref());
        let mut expected: Vec<Record> = (1..first + whole).map(record).collect();
        assert_eq!(replay.collect::<Result<Vec<_>>>().unwrap(), expected);
        assert_eq!(
            contents(folder.path())[name].len(),
            kept,
            "the torn tail is gone from disk"
        );

        expected.push(record(77));
        assert_eq!(log.append(&record(77)).unwrap(), first + whole);
        log.sync().unwrap();
        drop(log);
        assert_eq!(read(folder.path()).unwrap(), expected);
    }
}

#[test]
fn earlier_segment_cut_at_any_byte_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let files = sample(folder.path());
    let names: Vec<&String> = files.keys().filter(|name| name.ends_with(".wal")).collect();
    for name in &names[..names.len() - 1] {
        for length in 0..files[*name].len() {
            let mut files = files.clone();
            files.get_mut(*name).unwrap().truncate(length);
            assert_refused(folder.path(), &files, &format!("{name} of length {length}"));
        }
    }
}

/// Damages every byte of every file in several ways; `undetectable` is the offset in the last segment from which
/// damage cannot be told from a torn tail, and `left` the records before it.
fn damage_every_byte(folder: &Path, files: &BTreeMap<String, Vec<u8>>, undetectable: usize, left: &[Record]) {
    let last = files.keys().rfind(|name| name.ends_with(".wal")).unwrap();
    for (name, bytes) in files {
        for (at, before) in bytes.iter().copied().enumerate() {
            for damaged in [before ^ 1, before ^ 0x20, !before, 0]
                .into_iter()
                .filter(|byte| *byte != before)
            {
                let mut files = files.clone();
                files.get_mut(name).unwrap()[at] = damaged;
                let case = format!("{name} at {at}: {before:#x} to {damaged:#x}");
                if name == last && at >= undetectable {
                    assert_eq!(outcome(folder, &files).0.unwrap(), left, "{case}");
                } else {
                    let error = assert_refused(folder, &files, &case);
                    assert!(error.message().contains(name.as_str()), "{case}: {error:?}");
                    assert!(
                        error.message().contains(" at byte ") || error.kind() == ErrorKind::Unsupported,
                        "{case}"
                    );
                }
            }
        }
    }
}

#[test]
fn damage_to_any_byte_before_the_last_record_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let files = sample(folder.path());
    let ends = frame_ends(files.values().nth(2).unwrap());
    let all: Vec<Record> = (1..11).map(record).collect();
    damage_every_byte(folder.path(), &files, ends[ends.len() - 2], &all);
}

#[test]
fn after_a_clean_close_damage_to_the_last_record_is_refused_too() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 1 << 20, &[1, 3]);
    open(folder.path()).unwrap().0.close().unwrap();
    let files = contents(folder.path());
    let ends = frame_ends(files.values().next().unwrap());
    assert_eq!(ends.len(), 3, "two records and the mark");
    damage_every_byte(folder.path(), &files, ends[1], &[record(1), record(2)]);
}

#[test]
fn damage_is_named_by_file_and_byte() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = sample(folder.path());
    let (name, bytes) = files.iter_mut().next().unwrap();
    let second = frame_ends(bytes)[0];
    bytes[second + 60] ^= 4;
    let name = name.clone();
    let error = assert_refused(folder.path(), &files, "");
    let file = folder.path().join(name);
    assert_eq!(
        error.message(),
        format!(
            "cannot read `{}` at byte {second}: a record fails its checksum",
            file.display()
        )
    );
    assert_eq!(error.detail().unwrap(), "expected: record 2");
}

#[test]
fn missing_segments_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let files = sample(folder.path());
    let names = segment_names(folder.path());
    let firsts: Vec<u64> = names.iter().map(|name| name[..20].parse().unwrap()).collect();
    for missing in 0..2 {
        let mut files = files.clone();
        files.remove(&names[missing]);
        let error = assert_refused(folder.path(), &files, &names[missing]);
        assert!(
            error
                .message()
                .ends_with(&format!("segment `{}` is missing", names[missing])),
            "{error:?}"
        );
        let lost = format!("records lost: {} to {}", firsts[missing], firsts[missing + 1] - 1);
        assert_eq!(error.detail().unwrap(), lost);
    }
    let named_alone = [("log.json".to_string(), files["log.json"].clone())].into();
    let error = assert_refused(folder.path(), &named_alone, "all segments missing");
    assert!(
        error
            .message()
            .ends_with("segment `00000000000000000001.wal` is missing"),
        "{error:?}"
    );

    let mut unnamed = files.clone();
    unnamed.remove("log.json");
    let error = assert_refused(folder.path(), &unnamed, "no identity");
    assert!(error.message().contains("log.json"), "{error:?}");
}

#[test]
fn segments_of_another_log_or_another_place_are_refused() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = sample(folder.path());
    let foreign = sample(other.path());
    for name in segment_names(folder.path()) {
        let mut mixed = files.clone();
        mixed.insert(name.clone(), foreign[&name].clone());
        assert!(
            assert_refused(folder.path(), &mixed, &name)
                .message()
                .ends_with("it belongs to another log")
        );
    }
    let names = segment_names(folder.path());
    let mut swapped = files.clone();
    swapped.insert(names[1].clone(), files[&names[2]].clone());
    assert_refused(folder.path(), &swapped, "a segment under another name");
    let mut repeated = files.clone();
    let first: u64 = names[1][..20].parse().unwrap();
    repeated.insert(format!("{:020}.wal", first - 1), files[&names[1]].clone());
    assert_refused(folder.path(), &repeated, "a segment twice");
}

#[test]
fn lost_repeated_or_swapped_records_in_the_middle_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 1 << 20, &[1, 2, 3, 4, 5]);
    let files = contents(folder.path());
    let (name, bytes) = files.iter().next().unwrap();
    let ends = [vec![HEADER], frame_ends(bytes)].concat();
    let frame = |n: usize| &bytes[ends[n]..ends[n + 1]];
    let spliced = |frames: &[usize]| {
        let parts: Vec<&[u8]> = frames.iter().map(|n| frame(*n)).collect();
        [&bytes[..HEADER], &parts.concat()].concat()
    };
    for frames in [&[0, 2, 3][..], &[0, 1, 1, 2, 3], &[0, 2, 1, 3], &[1, 2, 3]] {
        let mut files = files.clone();
        files.insert(name.clone(), spliced(frames));
        // A frame is valid only where it was written, so what follows the splice is no proof either: a splice near
        // the end can look like a torn tail, and then what is left is still the beginning of the log.
        match outcome(folder.path(), &files).0 {
            Ok(records) => assert_eq!(records, (1..=records.len() as u64).map(record).collect::<Vec<_>>()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt),
        }
    }
}

#[test]
fn newer_format_is_refused_by_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let files = sample(folder.path());
    let name = segment_names(folder.path()).pop().unwrap();
    let mut newer = files.clone();
    newer.get_mut(&name).unwrap()[8] = 2;
    let error = assert_refused(folder.path(), &newer, "segment");
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unsupported, "WAL-0004"));
    assert!(error.message().ends_with("it has format version 2"), "{error:?}");

    let text = String::from_utf8(files["log.json"].clone()).unwrap();
    let mut newer = files.clone();
    newer.insert(
        "log.json".into(),
        text.replace("\"version\":1", "\"version\":7,\"new\":true").into_bytes(),
    );
    let error = assert_refused(folder.path(), &newer, "identity");
    assert!(error.message().ends_with("it has format version 7"), "{error:?}");
}

#[test]
fn copy_of_a_log_inside_a_torn_record_proves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 1 << 20, &[1, 4]);
    let inner = contents(folder.path()).remove("00000000000000000001.wal").unwrap();
    let (mut log, _) = open(folder.path()).unwrap();
    log.append(&Record {
        header: [&inner[HEADER..], &[7; 100]].concat(),
        ..record(4)
    })
    .unwrap();
    log.sync().unwrap();
    drop(log);
    let mut files = contents(folder.path());
    let segment = files.get_mut("00000000000000000001.wal").unwrap();
    segment.truncate(segment.len() - 50);
    assert_eq!(
        outcome(folder.path(), &files).0.unwrap(),
        (1..4).map(record).collect::<Vec<_>>()
    );
}

#[test]
fn random_files_never_open_as_a_log_with_records() {
    let folder = tempfile::tempdir().unwrap();
    let files = sample(folder.path());
    let names: Vec<String> = files.keys().cloned().collect();
    let all: Vec<Record> = (1..12).map(record).collect();
    let mut random = Random(5);
    for _ in 0..3000 {
        let mut files = files.clone();
        let bytes = files.get_mut(&names[random.below(4) as usize]).unwrap();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            let until = (at + random.below(600) as usize).min(bytes.len());
            match random.below(4) {
                0 => bytes[at..until].fill(0),
                1 => bytes[at..until].iter_mut().for_each(|byte| *byte = random.next() as u8),
                2 => drop(bytes.drain(at..until)),
                _ => bytes.copy_within(at..until, 0),
            }
            if bytes.is_empty() {
                break;
            }
        }
        if let Ok(records) = outcome(folder.path(), &files).0 {
            assert_eq!(records, all[..records.len()]);
        }
    }
}
