//! Completeness of the description.

use super::*;
use std::collections::HashSet;

#[test]
fn every_route_with_its_parameters_is_described() {
    let description = description();
    for route in ROUTES {
        let method = match route.method {
            RouteMethod::Post => "post",
            RouteMethod::Delete => "delete",
            RouteMethod::Get | RouteMethod::Any => "get",
        };
        let operation = &description["paths"][route.path.replace("{*", "{")][method];
        assert_eq!(operation["summary"], route.summary, "{method} {}", route.path);
        let described = operation["parameters"].as_array().unwrap();
        for parameter in route.parameters {
            assert!(
                described.iter().any(|found| found["name"] == parameter.name),
                "{} {}",
                route.path,
                parameter.name
            );
        }
        if route.path.contains("{name}") {
            assert!(
                described
                    .iter()
                    .any(|found| found["in"] == "path" && found["name"] == "name")
            );
        }
    }
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match (name.as_str(), value) {
            ("$ref", Value::String(target)) => found.push(target.clone()),
            _ => references(value, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_reference_has_a_target_and_every_operation_an_id_of_its_own() {
    let description = description();
    let mut found = Vec::new();
    references(&description, &mut found);
    assert!(!found.is_empty());
    for target in found {
        let name = target.strip_prefix("#/components/schemas/").expect("a schema");
        assert!(!description["components"]["schemas"][name].is_null(), "{target}");
    }
    let paths = description["paths"].as_object().unwrap();
    let ids: Vec<&str> = paths
        .values()
        .flat_map(|path| path.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "{ids:?}");
}
