//! How functions read places and geometries: text `longitude,latitude`, lists, GeoJSON, and the polygons of WKT.

use super::answers::Answer;
use super::args::Args;
use super::geo::polygons;
use super::rows::In;
use super::shapes::{Corner, Geometry, Polygon};
use crate::Diagnostic;
use crate::node::{Kind, Node};
use crate::types::{Class, class, item_of, list_of};
use crate::value::Value;
use arrow::datatypes::DataType;
use serde_json::Value as Json;
use std::sync::Arc;

/// A place on the earth or above it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
    /// In metres above the ellipsoid.
    pub(super) altitude: Option<f64>,
}

impl Spot {
    fn new(longitude: f64, latitude: f64, altitude: Option<f64>) -> Result<Spot, String> {
        if !(-180.0..=180.0).contains(&longitude) || !(-90.0..=90.0).contains(&latitude) {
            return Err(format!("longitude {longitude:?}, latitude {latitude:?} is no place on the earth: longitude comes first"));
        }
        if let Some(altitude) = altitude {
            finite(altitude, "altitude")?;
        }
        Ok(Spot { longitude, latitude, altitude })
    }

    pub(super) fn corner(&self) -> Corner {
        (self.longitude, self.latitude)
    }
}

/// A number that must be one.
pub(super) fn finite(value: f64, what: &str) -> Result<f64, String> {
    if value.is_finite() { Ok(value) } else { Err(format!("the {what} is `{value:?}`, which is no finite number")) }
}

/// What an argument may be read as.
pub(super) trait Read: Clone + Send + Sync + 'static {
    /// What it is called where something else was found.
    const WHAT: &'static str;
    fn of_text(text: &str) -> Result<Self, String>;
    fn of_spot(spot: Spot) -> Self;
}

impl Read for Spot {
    const WHAT: &'static str = "a point: text `longitude,latitude`, a list [longitude, latitude] or a Point in GeoJSON";

    fn of_text(text: &str) -> Result<Spot, String> {
        if text.trim_start().starts_with('{') {
            return json_point(&parsed(text)?).ok_or_else(|| "the GeoJSON is no Point".to_string())?;
        }
        let mut numbers = text.split(',').map(|number| number.trim().parse::<f64>());
        match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(longitude)), Some(Ok(latitude)), None, None) => Spot::new(longitude, latitude, None),
            (Some(Ok(longitude)), Some(Ok(latitude)), Some(Ok(altitude)), None) => Spot::new(longitude, latitude, Some(altitude)),
            _ => Err(format!("`{}` is no point, write `longitude,latitude`", start_of(text))),
        }
    }

    fn of_spot(spot: Spot) -> Spot {
        spot
    }
}

impl Read for Arc<Geometry> {
    const WHAT: &'static str = "a geometry: GeoJSON, a polygon in WKT, or a point as text or list";

    fn of_text(text: &str) -> Result<Self, String> {
        let start = text.trim_start();
        if start.starts_with('{') {
            return geo_json(text).map(Arc::new);
        }
        if !start.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Spot::of_text(text).map(Self::of_spot);
        }
        let polygons = polygons(text).ok_or_else(|| format!("`{}` is no geometry in GeoJSON and no polygon in WKT", start_of(text)))?;
        polygons.iter().flatten().flatten().try_for_each(|corner| Spot::new(corner.0, corner.1, None).map(drop))?;
        Ok(Arc::new(Geometry::of_polygons(polygons)))
    }

    fn of_spot(spot: Spot) -> Self {
        Arc::new(Geometry::of_point(spot.corner()))
    }
}

/// The beginning of a text, for a message.
fn start_of(text: &str) -> &str {
    text.char_indices().nth(40).map_or(text, |(at, _)| &text[..at])
}

/// Where an argument is read from: a constant text is read once, when the expression is bound.
#[derive(Debug, Clone)]
pub(super) enum Source<T> {
    Constant(T),
    Text(usize),
    List(usize),
}

impl<T: Read> Source<T> {
    pub(super) fn of(args: &mut Args<'_>, at: usize) -> Result<Source<T>, Diagnostic> {
        if let Some(Value::Text(text)) = args.nodes[at].as_literal() {
            return match T::of_text(text) {
                Ok(found) => Ok(Source::Constant(found)),
                Err(message) => Err(args.refuse(at, format!("this always fails: {message}"))),
            };
        }
        if matches!(args.class(at), Class::Text | Class::Null) {
            args.text(at)?;
            return Ok(Source::Text(at));
        }
        numbers(args, at, T::WHAT)?;
        Ok(Source::List(at))
    }

    /// Null where a list has no longitude or no latitude.
    pub(super) fn read(&self, row: In<'_>) -> Answer<T> {
        match self {
            Source::Constant(found) => Ok(Some(found.clone())),
            Source::Text(at) => T::of_text(row.text(*at)).map(Some),
            Source::List(at) => {
                let (Some(longitude), Some(latitude), None) = (row.element(*at, 0), row.element(*at, 1), row.element(*at, 3)) else {
                    return Err("a point is a list of longitude, latitude and perhaps altitude".to_string());
                };
                match (longitude, latitude) {
                    (Some(longitude), Some(latitude)) => {
                        Spot::new(longitude, latitude, row.element(*at, 2).flatten()).map(|spot| Some(T::of_spot(spot)))
                    }
                    _ => Ok(None),
                }
            }
        }
    }
}

/// Requires a list of numbers, as float64.
pub(super) fn numbers(args: &mut Args<'_>, at: usize, what: &str) -> Result<(), Diagnostic> {
    match item_of(args.ty(at)).map(class) {
        Some(Class::Signed | Class::Unsigned | Class::Float | Class::Decimal(..) | Class::Null) => {
            args.convert(at, &list_of(DataType::Float64));
            Ok(())
        }
        _ => Err(args.wrong(at, what)),
    }
}

/// Requires a number that may be null without making the call null: [`given`] reads it.
pub(super) fn optional(args: &mut Args<'_>, at: usize) -> Result<(), Diagnostic> {
    args.float(at)?;
    let number = std::mem::replace(&mut args.nodes[at], Node::literal(Value::Null, DataType::Null, 0..0));
    let span = number.span.clone();
    args.nodes[at] = Node::new(Kind::List(vec![number]), list_of(DataType::Float64), span, false);
    Ok(())
}

pub(super) fn given(row: In<'_>, at: usize) -> Option<f64> {
    row.element(at, 0).flatten()
}

fn parsed(text: &str) -> Result<Json, String> {
    serde_json::from_str(text).map_err(|error| format!("the GeoJSON cannot be read: {error}"))
}

/// The point of a Point, or of a Feature that has one.
fn json_point(json: &Json) -> Option<Result<Spot, String>> {
    match json["type"].as_str()? {
        "Feature" => json_point(&json["geometry"]),
        "Point" => Some(position(&json["coordinates"])),
        _ => None,
    }
}

/// Everything that a GeoJSON text draws.
pub(super) fn geo_json(text: &str) -> Result<Geometry, String> {
    let mut found = Geometry::default();
    draw(&parsed(text)?, &mut found)?;
    Ok(found.ready())
}

/// Adds a geometry, or what is collected in one. The reader of JSON has refused what nests deeply.
fn draw(json: &Json, into: &mut Geometry) -> Result<(), String> {
    let coordinates = &json["coordinates"];
    match json["type"].as_str().unwrap_or_default() {
        // A Feature without a geometry is nowhere.
        "Feature" if json["geometry"].is_null() => {}
        "Feature" => draw(&json["geometry"], into)?,
        "FeatureCollection" => members(&json["features"])?.iter().try_for_each(|member| draw(member, into))?,
        "GeometryCollection" => members(&json["geometries"])?.iter().try_for_each(|member| draw(member, into))?,
        "Point" => into.points.push(position(coordinates)?.corner()),
        "MultiPoint" => into.points.extend(corners(coordinates)?),
        "LineString" => into.lines.push(line(coordinates)?),
        "MultiLineString" => {
            for member in members(coordinates)? {
                into.lines.push(line(member)?);
            }
        }
        "Polygon" => into.polygons.push(polygon(coordinates)?),
        "MultiPolygon" => {
            for member in members(coordinates)? {
                into.polygons.push(polygon(member)?);
            }
        }
        other => return Err(format!("`{}` is no type of GeoJSON", start_of(other))),
    }
    Ok(())
}

fn members(json: &Json) -> Result<&[Json], String> {
    json.as_array().map(Vec::as_slice).ok_or_else(|| "the GeoJSON lacks a list of coordinates or members".to_string())
}

fn position(json: &Json) -> Result<Spot, String> {
    let mut numbers = members(json)?.iter().map(Json::as_f64);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Some(longitude)), Some(Some(latitude)), altitude) => Spot::new(longitude, latitude, altitude.flatten()),
        _ => Err("a position in GeoJSON is a list [longitude, latitude]".to_string()),
    }
}

fn corners(json: &Json) -> Result<Vec<Corner>, String> {
    members(json)?.iter().map(|member| position(member).map(|spot| spot.corner())).collect()
}

fn line(json: &Json) -> Result<Vec<Corner>, String> {
    let found = corners(json)?;
    if found.len() >= 2 { Ok(found) } else { Err("a line in GeoJSON has two positions or more".to_string()) }
}

fn polygon(json: &Json) -> Result<Polygon, String> {
    let ring = |json: &Json| {
        let found = corners(json)?;
        let closed = found.len() >= 4 && found.first() == found.last();
        if closed { Ok(found) } else { Err("a ring in GeoJSON has four positions or more and ends where it begins".to_string()) }
    };
    members(json)?.iter().map(ring).collect()
}
