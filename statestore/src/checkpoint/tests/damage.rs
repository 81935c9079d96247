//! Bit rot: every file of a checkpoint, at many bytes and lengths. Verifying names it, reading refuses, nothing panics.

use super::round_trip::{all_types, table_of};
use super::*;

/// Damages of one file, tried for each.
const FLIPS: usize = 200;
const CUTS: u64 = 30;

/// A chain of two checkpoints with every type, a keyed table with deltas, and a multiset.
fn chain(folder: &Path) -> Manifest {
    let store = open_store(folder);
    let batch = all_types();
    let every = table_of(&batch, vec![0], false);
    let multiset = keyless("bag");
    let full = || {
        let writer = store.begin(None).unwrap();
        let table = writer.table(every.clone()).unwrap();
        writer
            .part(
                table,
                KeyGroups::ALL,
                PartKind::Base,
                [every.base_rows(&Changes::insertions(batch.clone()))],
            )
            .unwrap();
        let table = writer.table(multiset.clone()).unwrap();
        let rows = Changes::new(rows(&some_pairs(3)), Weights::Each(vec![1, 2, 3]));
        writer
            .part(table, KeyGroups::ALL, PartKind::Base, [multiset.base_rows(&rows)])
            .unwrap();
        writer.publish(sealed(1)).unwrap()
    };
    let first = full();
    let writer = store.begin(Some(&first)).unwrap();
    let table = writer.table(every.clone()).unwrap();
    let gone = every.gone_rows(&[Arc::new(Int64Array::from(vec![2]))], 1);
    writer.part(table, KeyGroups::ALL, PartKind::Delta, [gone]).unwrap();
    let table = writer.table(multiset.clone()).unwrap();
    writer.keep(table, KeyGroups::ALL).unwrap();
    writer.publish(sealed(2)).unwrap()
}

/// All rows of all tables, or the first error.
fn read_everything(folder: &Path, id: &CheckpointId) -> Result<Vec<String>> {
    let checkpoint = reader(folder).open(id.as_str())?;
    let mut all = Vec::new();
    for table in &checkpoint.manifest().tables {
        for changes in checkpoint.read_table(&table.readable_name(), KeyGroups::ALL)? {
            all.push(format!("{:?}", changes?));
        }
    }
    Ok(all)
}

/// Whether everything that looks at the damaged file says so.
fn check(folder: &Path, id: &CheckpointId, path: &str, case: &str) {
    let error = read_everything(folder, id).expect_err(case);
    assert!(error.message().contains(path), "{case}: {error:?}");
    assert!(matches!(error.code(), "CKPT-0002" | "CKPT-0003"), "{case}: {error:?}");
    match reader(folder).open(id.as_str()) {
        Err(error) => assert!(path.ends_with("manifest.json"), "{case}: {error:?}"),
        Ok(checkpoint) => {
            let problems = checkpoint.verify().unwrap().problems;
            assert!(
                problems.iter().any(|problem| problem.message().contains(path)),
                "{case}: {problems:?}"
            );
        }
    }
    let newest = reader(folder).newest_whole(Depth::Checksums).unwrap();
    assert!(newest.damaged.iter().any(|(damaged, _)| damaged == id), "{case}");
}

#[test]
fn every_damage_of_every_file_is_named_and_never_read() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = chain(folder.path());
    let id = manifest.id();
    let whole = read_everything(folder.path(), &id).unwrap();
    let mut paths: Vec<String> = manifest.parts().map(|part| part.path.clone()).collect();
    assert_eq!(paths.len(), 3);
    paths.push(format!("{id}/manifest.json"));
    let mut random = Random(7);
    for path in paths {
        let place = folder.path().join(&path);
        let bytes = std::fs::read(&place).unwrap();
        for _ in 0..FLIPS {
            let at = random.below(bytes.len() as u64) as usize;
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << random.below(8);
            std::fs::write(&place, &damaged).unwrap();
            check(folder.path(), &id, &path, &format!("{path}, byte {at}"));
        }
        let lengths = (0..CUTS)
            .map(|cut| cut * bytes.len() as u64 / CUTS)
            .chain([bytes.len() as u64 - 1]);
        for length in lengths {
            std::fs::write(&place, &bytes[..length as usize]).unwrap();
            check(folder.path(), &id, &path, &format!("{path} cut to {length}"));
        }
        let longer: Vec<u8> = bytes.iter().copied().chain([b'\n']).collect();
        std::fs::write(&place, longer).unwrap();
        check(folder.path(), &id, &path, &format!("{path}, a byte longer"));
        if !path.ends_with("manifest.json") {
            std::fs::remove_file(&place).unwrap();
            check(folder.path(), &id, &path, &format!("{path} is gone"));
        }
        std::fs::write(&place, &bytes).unwrap();
    }
    assert_eq!(read_everything(folder.path(), &id).unwrap(), whole);
}

#[test]
fn files_that_took_each_others_place_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let a = publish(&store, "t", 1, &some_pairs(100));
    let b = publish(&store, "t", 2, &some_pairs(100));
    let place = |manifest: &Manifest| folder.path().join(manifest.id().as_str()).join("manifest.json");
    std::fs::copy(place(&a), place(&b)).unwrap();
    let error = reader(folder.path()).open(b.id().as_str()).unwrap_err();
    assert!(error.message().contains(a.id().as_str()), "{error:?}");
    let part =
        |manifest: &Manifest, bucket: usize| folder.path().join(&manifest.tables[0].buckets[bucket].parts[0].path);
    std::fs::copy(part(&a, 0), part(&a, 1)).unwrap();
    let checkpoint = reader(folder.path()).open(a.id().as_str()).unwrap();
    assert_eq!(contents(&checkpoint, "t").unwrap_err().code(), "CKPT-0002");
}

/// A manifest with other contents and a checksum that holds.
fn forged(folder: &Path, manifest: &Manifest, change: impl FnOnce(&mut serde_json::Value)) -> Error {
    let place = folder.join(manifest.id().as_str()).join("manifest.json");
    let original = std::fs::read(&place).unwrap();
    let mut value: serde_json::Value = serde_json::from_slice(&original).unwrap();
    value["checksum"] = crate::checkpoint::document::unsealed().into();
    change(&mut value);
    std::fs::write(&place, crate::checkpoint::document::seal(&value).unwrap()).unwrap();
    let outcome = reader(folder).open(manifest.id().as_str());
    std::fs::write(&place, original).unwrap();
    outcome.unwrap_err()
}

#[test]
fn manifests_that_name_what_they_must_not_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = publish(&open_store(folder.path()), "t", 1, &some_pairs(100));
    let part = "/tables/0/buckets/0/parts/0";
    for path in [
        "/etc/passwd".to_string(),
        "../secret.arrow".into(),
        format!("{}/public.t/../../../etc/passwd.arrow", manifest.id),
        format!("{}/public.other/x.arrow", manifest.id),
        format!("{}/public.t/x", manifest.id),
        "elsewhere/public.t/x.arrow".into(),
        manifest.tables[0].buckets[1].parts[0].path.clone(),
    ] {
        let error = forged(folder.path(), &manifest, |value| {
            value.pointer_mut(part).unwrap()["path"] = path.clone().into()
        });
        assert_eq!(error.code(), "CKPT-0002", "{path}");
        assert!(error.message().contains(&path), "{error}");
    }
    let cases: [(&str, &str, serde_json::Value, &str); 9] = [
        ("", "version", 2.into(), "format version 2"),
        ("", "surprise", 1.into(), "unknown field `surprise`"),
        (part, "surprise", 1.into(), "unknown field `surprise`"),
        ("/tables/0", "bytes", 1.into(), "do not add up"),
        ("", "bytes_new", 1.into(), "do not add up"),
        ("/tables/0/buckets/0", "last_group", 60.into(), "key group 61"),
        (
            "/tables/0",
            "identity",
            serde_json::json!(["nothing"]),
            "not among its columns",
        ),
        ("/tables/0", "multiset", true.into(), "a multiset with a key"),
        (
            "/tables/0/columns/0",
            "type",
            "complex".into(),
            "unknown variant `complex`",
        ),
    ];
    for (place, field, new, told) in cases {
        let error = forged(folder.path(), &manifest, |value| {
            value.pointer_mut(place).unwrap()[field] = new
        });
        assert!(error.message().contains(told), "{field}: {error}");
    }
    assert_eq!(
        forged(folder.path(), &manifest, |value| value["version"] = 2.into()).code(),
        "CKPT-0003"
    );
}

#[test]
fn rows_that_do_not_fit_the_manifest_are_named_by_verify() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let writer = store.begin(None).unwrap();
    let state = keyed("t");
    let table = writer.table(state.clone()).unwrap();
    let twice = rows(&[(1, "a".into()), (1, "b".into())]);
    writer
        .part(
            table,
            KeyGroups::ALL,
            PartKind::Base,
            [state.base_rows(&Changes::insertions(twice))],
        )
        .unwrap();
    writer.count(table, 2);
    let other = writer.table(keyed("other")).unwrap();
    writer
        .part(
            other,
            KeyGroups::ALL,
            PartKind::Base,
            [keyed("other").base_rows(&Changes::insertions(rows(&some_pairs(3))))],
        )
        .unwrap();
    writer.count(other, 4);
    let manifest = writer.publish(sealed(1)).unwrap();
    let problems = store
        .checkpoints()
        .open(manifest.id().as_str())
        .unwrap()
        .verify()
        .unwrap()
        .problems;
    let told: Vec<&str> = problems.iter().map(Error::message).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("table `other` has 3 rows, not 4"), "{told:?}");
    assert!(told[1].contains("it names one row twice"), "{told:?}");
}

#[test]
fn damaged_owner_and_savepoints_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let manifest = publish(&store, "t", 1, &some_pairs(3));
    store.create_savepoint("s", &manifest.id()).unwrap();
    for path in [OWNER, "savepoints/s.json"] {
        let place = folder.path().join(path);
        let bytes = std::fs::read(&place).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            std::fs::write(&place, &damaged).unwrap();
            let error = match path {
                OWNER => open_with(folder.path(), Arc::new(Unsynced)).unwrap_err(),
                _ => store.collect(KEEP_ONE).unwrap_err(),
            };
            assert!(
                matches!(error.code(), "CKPT-0002" | "CKPT-0003" | "CKPT-0011"),
                "{path}, byte {at}: {error:?}"
            );
            assert!(error.render().contains(path), "{path}, byte {at}: {error:?}");
        }
        std::fs::write(&place, &bytes).unwrap();
    }
}
