//! What the fencing model is made of: jobs, the registry's rows, the store's points, and deliveries
//! on their way through the protocol in `ARCHITECTURE.md`. Only data; the protocol itself is in `protocol.rs`.

/// Documents of the one corpus; two are enough to see a `deleteCorpus` walk.
pub const DOCUMENTS: usize = 2;
/// Chunks of the longest text.
pub const MAX_CHUNKS: usize = 3;

/// A document's text, named by its number of chunks; its chunks' vectors are named by the text they
/// were embedded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Text {
    Zero,
    One,
    Two,
    Three,
}

impl Text {
    pub fn chunks(self) -> usize {
        self as usize
    }
}

/// What a put carries and what the registry's hashes stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    pub text: Text,
    pub metadata: u8,
}

/// A job's version is its place in the job set, from 1: the stream sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    Put { document: usize, version: Version },
    Delete { document: usize },
    DeleteCorpus,
}

impl Job {
    pub fn touches(self, wanted: usize) -> bool {
        match self {
            Job::Put { document, .. } | Job::Delete { document } => document == wanted,
            Job::DeleteCorpus => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Indexed,
    MetadataUpdated,
    Unchanged,
    Superseded,
    Deleted,
}

/// One point of the store; its id is (document, ordinal).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    pub text: Text,
    pub vector: Text,
    pub metadata: u8,
    pub sequence: u8,
}

/// One row of `documents`. `version` stands for the three hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub sequence: u8,
    pub claimed: u8,
    pub live: u8,
    pub version: Option<Version>,
    pub deleted: bool,
    pub result: Status,
}

impl Row {
    /// A row just created by step 1: nothing finished, nothing served.
    pub const NEW: Row = Row {
        sequence: 0,
        claimed: 0,
        live: 0,
        version: None,
        deleted: true,
        result: Status::Deleted,
    };
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Document {
    pub row: Option<Row>,
    pub points: [Option<Point>; MAX_CHUNKS],
}

/// Where a delivery stands. Each is one transaction, one store call or one publish: nothing inside
/// a step interleaves, everything between two steps does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Step {
    /// Step 1; for `deleteCorpus` the transaction that sets the fence.
    #[default]
    Start,
    /// Step 2 of a metadata-only put: the vectors to keep are read from the store. (Chunking and
    /// embedding touch nothing shared, so an ordinary put has no step here.)
    ReadVectors,
    /// Step 3, a point at a time: the store promises no more than that.
    Write {
        ordinal: usize,
    },
    /// Step 4.
    Commit,
    /// `deleteCorpus`: the transaction that deletes one document.
    Tombstone {
        document: usize,
    },
    /// Step 5, with `live` as the transaction before it saw it.
    CleanUp {
        document: usize,
        live: u8,
    },
    /// Steps 6 and 7.
    Publish,
    Done,
}

/// A store call whose outcome the worker never learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreCall {
    Upsert {
        document: usize,
        ordinal: usize,
        point: Point,
    },
    CleanUp {
        document: usize,
        live: u8,
    },
}

/// One delivery of a job, redeliveries after a crash included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Delivery {
    pub step: Step,
    /// What it will report, once a transaction has decided that.
    pub status: Option<Status>,
    /// Vectors kept by a metadata-only put; the other chunks are embedded.
    pub vectors: [Option<Text>; MAX_CHUNKS],
    pub in_flight: Option<StoreCall>,
}

impl Delivery {
    /// Forgets what only the steps behind it needed, so that states differ where the future does.
    /// A call in flight stays: the store knows nothing of the worker's steps.
    pub fn move_to(&mut self, step: Step, status: Option<Status>) {
        let in_flight = self.in_flight;
        *self = Delivery {
            step,
            status,
            in_flight,
            ..Delivery::default()
        };
    }
}

/// The set of statuses reported for one job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reports(u8);

impl Reports {
    pub fn add(&mut self, status: Status) {
        self.0 |= 1 << status as u8;
    }

    pub fn has(self, status: Status) -> bool {
        self.0 & (1 << status as u8) != 0
    }

    /// Different statuses other than `SUPERSEDED`.
    pub fn verdicts(self) -> u32 {
        (self.0 & !(1 << Status::Superseded as u8)).count_ones()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub documents: [Document; DOCUMENTS],
    pub fence: u8,
    pub deliveries: Vec<Delivery>,
    /// Crashes still to come.
    pub crashes: u8,
    /// By job.
    pub reports: Vec<Reports>,
    /// History: step 4 made a put live although the fence stood above it.
    pub live_below_fence: bool,
}

impl State {
    /// Every delivery is acknowledged and no store call is under way.
    pub fn at_rest(&self) -> bool {
        let ended = |d: &Delivery| d.step == Step::Done && d.in_flight.is_none();
        self.deliveries.iter().all(ended)
    }
}
