//! What is garbage, over every small folder there can be: judged by what must hold, not by how it is decided.

use super::*;
use std::collections::BTreeSet;

fn id(number: usize) -> CheckpointId {
    CheckpointId::parse(&format!("2026010{number}T000000.000Z-00000000")).unwrap()
}

fn manifest_of(id: &CheckpointId) -> String {
    format!("{id}/manifest.json")
}

fn file_of(id: &CheckpointId, number: usize) -> String {
    format!("{id}/public.t/000-255.base.{number}.arrow")
}

/// Three checkpoints that share files as `shares` says: bit `i` of a share, whether file `i` of what the older one names is
/// named again.
fn published(shares: [usize; 2]) -> Vec<Published> {
    let mut all: Vec<Published> = Vec::new();
    for number in 1..=3 {
        let mut files = vec![file_of(&id(number), 0)];
        if let Some(older) = all.last() {
            let again = older
                .files
                .iter()
                .enumerate()
                .filter(|(i, _)| shares[number - 2] >> i & 1 == 1);
            files.extend(again.map(|(_, file)| file.clone()));
        }
        let (id, sequence, time_ms) = (id(number), number as u64, number as i64 * 1000);
        all.push(Published {
            id,
            sequence,
            time_ms,
            files,
        });
    }
    all
}

const FOREIGN: [&str; 5] = [
    "notes.txt",
    "server.json",
    "lost/found/x.arrow",
    "savepoints/a.json",
    "spill/0123456789abcdef/a/compacted/01K7.sst",
];
const ABANDONED: [&str; 2] = ["savepoints/a.json.00000001.tmp", "server.json.00000001.tmp"];

struct World {
    published: Vec<Published>,
    savepoints: BTreeSet<CheckpointId>,
    in_flight: Vec<InFlight>,
    keep: Keep,
    now_ms: i64,
}

impl World {
    fn files(&self) -> BTreeSet<String> {
        let mut files: BTreeSet<String> = FOREIGN.iter().chain(&ABANDONED).map(ToString::to_string).collect();
        for published in &self.published {
            files.extend([
                manifest_of(&published.id),
                file_of(&published.id, 0),
                file_of(&published.id, 9),
            ]);
        }
        // One that crashed before it was published, and those in flight.
        files.insert(file_of(&id(8), 0));
        files.extend(self.in_flight.iter().map(|writer| file_of(&writer.id, 0)));
        files
    }

    fn garbage(&self, files: &BTreeSet<String>) -> Garbage {
        let published: Vec<Published> = self
            .published
            .iter()
            .filter(|one| files.contains(&manifest_of(&one.id)))
            .cloned()
            .collect();
        let found = |path: &String| Found {
            path: BlobPath::parse(path).unwrap(),
            length: 1,
        };
        let found: Vec<Found> = files.iter().map(found).collect();
        garbage(&Facts {
            published: &published,
            savepoints: &self.savepoints,
            found: &found,
            in_flight: &self.in_flight,
            keep: self.keep,
            now_ms: self.now_ms,
        })
    }

    fn is_kept(&self, number: usize) -> bool {
        let newer = 3 - number;
        let age = self.now_ms - number as i64 * 1000;
        newer == 0
            || newer < self.keep.count
            || age < self.keep.age.as_millis() as i64
            || self.savepoints.contains(&id(number))
    }

    /// What must be there at the end.
    fn expected(&self) -> BTreeSet<String> {
        let mut expected: BTreeSet<String> = FOREIGN.iter().map(ToString::to_string).collect();
        for number in (1..=3).filter(|number| self.is_kept(*number)) {
            expected.insert(manifest_of(&id(number)));
            expected.extend(self.published[number - 1].files.iter().cloned());
        }
        for writer in &self.in_flight {
            expected.insert(file_of(&writer.id, 0));
            expected.extend(writer.files.iter().cloned());
        }
        expected
    }

    fn check(&self) {
        let (mut files, expected) = (self.files(), self.expected());
        let found = self.garbage(&files);
        let dropped: Vec<CheckpointId> = (1..=3).rev().filter(|number| !self.is_kept(*number)).map(id).collect();
        assert_eq!(found.checkpoints, dropped);
        // A crash after each deletion: what has a manifest is whole, and the next collection gets to the same end.
        for path in found.manifests.iter().chain(&found.files) {
            assert!(files.remove(path.as_str()), "{path} was not there");
            for published in self
                .published
                .iter()
                .filter(|one| files.contains(&manifest_of(&one.id)))
            {
                assert!(
                    published.files.iter().all(|file| files.contains(file)),
                    "{} is not whole",
                    published.id
                );
            }
            let (mut later, again) = (files.clone(), self.garbage(&files));
            again
                .manifests
                .iter()
                .chain(&again.files)
                .for_each(|path| assert!(later.remove(path.as_str())));
            assert_eq!(later, expected);
        }
        assert_eq!(files, expected);
        assert_eq!(self.garbage(&files), Garbage::default());
    }
}

#[test]
fn garbage_is_exactly_what_nothing_kept_needs_in_every_small_folder() {
    let mut worlds = 0;
    for shares in (0..8).map(|bits| [bits & 1, bits >> 1]) {
        for savepoints in 0..8 {
            for count in 0..4 {
                for age in [0, 1500, 10_000] {
                    for base in 0..=4 {
                        let published = published(shares);
                        let files = |number: usize| published[number - 1].files.clone();
                        // 4: one in flight that builds upon nothing.
                        let in_flight = match base {
                            0 => vec![],
                            4 => vec![InFlight {
                                id: id(9),
                                files: vec![],
                            }],
                            base => vec![InFlight {
                                id: id(9),
                                files: files(base),
                            }],
                        };
                        let savepoints = (1..=3)
                            .filter(|number| savepoints >> (number - 1) & 1 == 1)
                            .map(id)
                            .collect();
                        let keep = Keep {
                            count,
                            age: Duration::from_millis(age),
                        };
                        World {
                            published,
                            savepoints,
                            in_flight,
                            keep,
                            now_ms: 4000,
                        }
                        .check();
                        worlds += 1;
                    }
                }
            }
        }
    }
    assert_eq!(worlds, 8 * 8 * 4 * 3 * 5);
}

#[test]
fn manifest_that_nobody_knows_is_not_deleted() {
    let found = [Found {
        path: BlobPath::parse(&manifest_of(&id(1))).unwrap(),
        length: 1,
    }];
    let (savepoints, keep) = (BTreeSet::new(), KEEP_ONE);
    let facts = Facts {
        published: &[],
        savepoints: &savepoints,
        found: &found,
        in_flight: &[],
        keep,
        now_ms: 0,
    };
    assert_eq!(garbage(&facts), Garbage::default());
}

#[test]
fn clock_that_was_set_back_keeps_more_not_less() {
    let mut world = World {
        published: published([0, 0]),
        savepoints: BTreeSet::new(),
        in_flight: vec![],
        keep: Keep {
            count: 1,
            age: Duration::from_secs(60),
        },
        now_ms: -5000,
    };
    assert!(world.garbage(&world.files()).checkpoints.is_empty());
    world.now_ms = i64::MAX;
    assert_eq!(world.garbage(&world.files()).checkpoints.len(), 2);
}
