//! What is kept of plans that differ in one place.

use super::Kept;
use crate::plan::{
    Aggregate, AggregateCall, AggregateFunction, CollectionId, Join, JoinKind, Node, NodeId, TopN, ViewPlan,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cenote_statestore::TableSchema;
use std::sync::Arc;

fn columns(nullable: bool) -> SchemaRef {
    let field = |name: &str| Field::new(name, DataType::Int64, nullable);
    Arc::new(Schema::new(vec![field("k"), field("n")]))
}

fn input(collection: u64) -> Node {
    Node::Input {
        collection: CollectionId(collection),
        schema: columns(false),
    }
}

fn counted(name: &str, input: NodeId) -> Node {
    Node::Aggregate(Aggregate {
        name: name.to_string(),
        input,
        keys: vec![0],
        calls: vec![AggregateCall {
            function: AggregateFunction::Count,
            argument: None,
            filter: None,
            distinct: false,
            output: DataType::Int64,
            elements: None,
        }],
        schema: columns(false),
        input_schema: columns(false),
    })
}

fn top(input: NodeId, limit: u64) -> Node {
    Node::TopN(TopN {
        name: "top".to_string(),
        input,
        partition: Vec::new(),
        order: Vec::new(),
        offset: 0,
        limit: Some(limit),
        row_number: false,
        input_schema: columns(false),
        schema: columns(false),
    })
}

fn joined(kind: JoinKind, left: NodeId, right: NodeId, nullable: bool) -> Node {
    Node::Join(Join {
        name: "joined".to_string(),
        left,
        right,
        left_keys: vec![0],
        right_keys: vec![0],
        null_equals_null: false,
        kind,
        residual: None,
        left_schema: columns(nullable),
        right_schema: columns(nullable),
        schema: columns(nullable),
    })
}

fn plan(nodes: Vec<Node>) -> ViewPlan {
    ViewPlan {
        root: nodes.len() - 1,
        table: TableSchema {
            name: "v".to_string(),
            columns: columns(false),
            key: vec![0],
            unique: true,
        },
        nodes,
    }
}

fn nodes(pairs: &std::collections::BTreeMap<NodeId, NodeId>) -> Vec<(NodeId, NodeId)> {
    pairs.iter().map(|(new, old)| (*new, *old)).collect()
}

#[test]
fn what_is_below_a_new_operator_stands_and_reads_nothing_again() {
    let old = plan(vec![input(1), counted("a", 0)]);
    let new = plan(vec![input(1), counted("a", 0), top(1, 3)]);
    let kept = Kept::of(&new, &old);
    assert_eq!(nodes(&kept.standing), [(1, 1)]);
    assert!(kept.below.is_empty());
    assert_eq!(Vec::from_iter(kept.rebuilt), [2]);
}

#[test]
fn what_is_above_a_new_operator_is_made_again() {
    let old = plan(vec![input(1), counted("a", 0), top(1, 3)]);
    let new = plan(vec![input(2), counted("a", 0), top(1, 3)]);
    assert_eq!(Kept::of(&new, &old), Kept::nothing(&new));
}

#[test]
fn operators_below_one_that_stands_go_on_in_silence() {
    let old = plan(vec![input(1), counted("a", 0), top(1, 3)]);
    let new = plan(vec![
        input(1),
        input(2),
        counted("a", 0),
        top(2, 3),
        joined(JoinKind::Inner, 1, 3, false),
    ]);
    let kept = Kept::of(&new, &old);
    assert_eq!(nodes(&kept.standing), [(3, 2)]);
    assert_eq!(nodes(&kept.below), [(2, 1)]);
    assert_eq!(Vec::from_iter(kept.rebuilt), [1, 4], "the other input is read");
}

#[test]
fn an_input_of_old_and_new_operators_is_read_for_the_new_ones() {
    let old = plan(vec![input(1), counted("a", 0)]);
    let new = plan(vec![
        input(1),
        counted("a", 0),
        counted("b", 0),
        joined(JoinKind::Inner, 1, 2, false),
    ]);
    let kept = Kept::of(&new, &old);
    assert_eq!(nodes(&kept.standing), [(1, 1)]);
    assert_eq!(Vec::from_iter(kept.rebuilt), [0, 2, 3]);
}

#[test]
fn an_outer_join_whose_rows_may_lack_a_key_does_not_stand() {
    for (kind, nullable, stands) in [
        (JoinKind::Inner, true, true),
        (JoinKind::Semi, true, true),
        (JoinKind::Left, true, false),
        (JoinKind::Left, false, true),
        (JoinKind::Anti, true, false),
        (JoinKind::Full, true, false),
        (JoinKind::Right, false, true),
    ] {
        let old = plan(vec![input(1), input(2), joined(kind, 0, 1, nullable)]);
        let new = plan(vec![input(1), input(2), joined(kind, 0, 1, nullable), top(2, 3)]);
        assert_eq!(
            Kept::of(&new, &old).standing.contains_key(&2),
            stands,
            "{kind:?}, nullable: {nullable}"
        );
    }
}
