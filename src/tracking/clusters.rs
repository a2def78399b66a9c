//! Questions that lead to the same documents, grouped: what people ask for in different words.
//!
//! Exact, without hashing tricks: only questions that share a document are compared. Must not know where the sets came from.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::model::{DocumentId, QueryDocuments, TrackedQuery};

/// A group of questions, each linked to another one by documents they share.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryCluster {
    /// The questions, most frequent first, then by text.
    pub queries: Vec<TrackedQuery>,
    /// How often they were asked together.
    pub retrievals: u64,
    /// The documents that all of them led to; may be empty in a long chain.
    pub shared: BTreeSet<DocumentId>,
    /// The least likeness of any two of them: shared documents over all documents of both, 0 to 1. A chain of like questions
    /// may have unlike ends, and this says so.
    pub similarity: f64,
}

/// Groups questions whose likeness is at least `threshold`, above 0: directly, or through others. Groups of one are left out.
/// The most alike come first, then those asked most.
pub fn query_clusters(queries: &[QueryDocuments], threshold: f64) -> Vec<QueryCluster> {
    let mut groups = Groups::of(queries.len());
    for (one, other) in linked(queries) {
        let like = similarity(&queries[one].documents, &queries[other].documents);
        if like >= threshold {
            groups.join(one, other);
        }
    }
    let mut members: BTreeMap<usize, Vec<&QueryDocuments>> = BTreeMap::new();
    for (number, query) in queries.iter().enumerate() {
        members.entry(groups.root(number)).or_default().push(query);
    }
    let groups = members.into_values().filter(|group| group.len() > 1);
    let mut clusters: Vec<QueryCluster> = groups.map(cluster).collect();
    clusters.sort_by(|a, b| {
        let likeness = b.similarity.total_cmp(&a.similarity);
        let size = b.retrievals.cmp(&a.retrievals);
        likeness.then(size).then_with(|| a.queries.cmp(&b.queries))
    });
    clusters
}

/// Pairs that share a document, each once.
fn linked(queries: &[QueryDocuments]) -> BTreeSet<(usize, usize)> {
    let mut by_document: HashMap<&DocumentId, Vec<usize>> = HashMap::new();
    for (number, query) in queries.iter().enumerate() {
        for document in &query.documents {
            by_document.entry(document).or_default().push(number);
        }
    }
    let mut pairs = BTreeSet::new();
    for numbers in by_document.values() {
        for (at, one) in numbers.iter().enumerate() {
            pairs.extend(numbers[at + 1..].iter().map(|other| (*one, *other)));
        }
    }
    pairs
}

/// Shared documents over all documents (Jaccard); two empty sets have nothing in common.
fn similarity(one: &BTreeSet<DocumentId>, other: &BTreeSet<DocumentId>) -> f64 {
    let shared = one.intersection(other).count();
    let all = one.len() + other.len() - shared;
    if all == 0 {
        0.0
    } else {
        shared as f64 / all as f64
    }
}

fn cluster(mut group: Vec<&QueryDocuments>) -> QueryCluster {
    let order = |query: &QueryDocuments| (std::cmp::Reverse(query.retrievals), query.query.clone());
    group.sort_by_key(|query| order(query));
    let mut least = 1.0_f64;
    for (at, one) in group.iter().enumerate() {
        for other in &group[at + 1..] {
            least = least.min(similarity(&one.documents, &other.documents));
        }
    }
    let mut shared = group[0].documents.clone();
    shared.retain(|id| group.iter().all(|query| query.documents.contains(id)));
    QueryCluster {
        queries: group.iter().map(|query| query.query.clone()).collect(),
        retrievals: group.iter().map(|query| query.retrievals).sum(),
        shared,
        similarity: least,
    }
}

/// Disjoint groups of numbers; the smallest number stands for its group.
struct Groups(Vec<usize>);

impl Groups {
    fn of(count: usize) -> Self {
        Self((0..count).collect())
    }

    fn root(&mut self, mut number: usize) -> usize {
        while self.0[number] != number {
            self.0[number] = self.0[self.0[number]];
            number = self.0[number];
        }
        number
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        self.0[one.max(other)] = one.min(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(query: &str, retrievals: u64, documents: &[&str]) -> QueryDocuments {
        let id = |id: &&str| DocumentId::new(id).expect("valid");
        QueryDocuments {
            query: TrackedQuery::Text(query.to_owned()),
            retrievals,
            documents: documents.iter().map(id).collect(),
        }
    }

    fn names(cluster: &QueryCluster) -> Vec<&str> {
        cluster.queries.iter().map(TrackedQuery::as_str).collect()
    }

    #[test]
    fn a_chain_is_one_group_and_says_how_unlike_its_ends_are() {
        let queries = [
            asked("one", 1, &["a", "b"]),
            asked("two", 5, &["a", "b", "c"]),
            asked("three", 1, &["b", "c", "d"]),
            asked("alone", 9, &["x"]),
            asked("nothing", 9, &[]),
        ];
        let clusters = query_clusters(&queries, 0.5);
        assert_eq!(clusters.len(), 1);
        assert_eq!(names(&clusters[0]), ["two", "one", "three"]);
        assert_eq!((clusters[0].retrievals, clusters[0].similarity), (7, 0.25));
        assert_eq!(clusters[0].shared.len(), 1);
        // The threshold itself is enough.
        assert_eq!(
            names(&query_clusters(&queries, 2.0 / 3.0)[0]),
            ["two", "one"]
        );
        assert!(query_clusters(&queries, 0.7).is_empty());
    }

    #[test]
    fn the_most_alike_come_first() {
        let queries = [
            asked("a", 9, &["1", "2"]),
            asked("b", 9, &["1", "2", "3"]),
            asked("c", 1, &["7"]),
            asked("d", 1, &["7"]),
        ];
        let clusters = query_clusters(&queries, 0.1);
        assert_eq!(names(&clusters[0]), ["c", "d"]);
        assert_eq!(names(&clusters[1]), ["a", "b"]);
    }

    proptest! {
        /// Two questions are in one group just when a chain of like ones leads from one to the other.
        #[test]
        fn groups_are_what_chains_reach(
            sets in proptest::collection::vec(proptest::collection::btree_set(0u8..9, 0..5), 0..12),
            threshold in 0.1f64..1.0,
        ) {
            let query = |(number, set): (usize, &BTreeSet<u8>)| {
                let ids: Vec<String> = set.iter().map(u8::to_string).collect();
                let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                asked(&format!("q{number:02}"), 1, &ids)
            };
            let queries: Vec<_> = sets.iter().enumerate().map(query).collect();
            let count = queries.len();
            let mut reach = vec![vec![false; count]; count];
            for a in 0..count {
                for b in 0..count {
                    let like = similarity(&queries[a].documents, &queries[b].documents);
                    reach[a][b] = a == b || like >= threshold;
                }
            }
            for through in 0..count {
                for a in 0..count {
                    for b in 0..count {
                        reach[a][b] |= reach[a][through] && reach[through][b];
                    }
                }
            }
            let clusters = query_clusters(&queries, threshold);
            for a in 0..count {
                for b in (0..count).filter(|b| *b != a) {
                    let both = |c: &QueryCluster| {
                        c.queries.contains(&queries[a].query) && c.queries.contains(&queries[b].query)
                    };
                    prop_assert_eq!(clusters.iter().any(both), reach[a][b]);
                }
            }
        }
    }
}
