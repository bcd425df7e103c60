//! Layouts: which fields an object has, in which order, and whether several objects make a table.

use super::NotEncodable;
use super::intern::{Id, Interner, narrow};
use super::names::NameId;

/// Which layout.
pub(super) type LayoutId = Id;

/// Which shape. Layouts of one shape have the same fields at every level, in any order, down to plain values.
pub(super) type ShapeId = Id;

/// What kind of value a field holds, as far as a table asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Holds {
    /// A string, number, boolean or null.
    Plain,
    Array,
    Object(LayoutId),
}

/// One field of a layout.
pub(super) type Field = (NameId, Holds);

/// One field of a shape; `None` for a plain value.
type Column = (NameId, Option<ShapeId>);

/// What is known of all objects that have the same keys in the same order with the same kinds of values.
#[derive(Clone, Copy)]
struct Layout {
    shape: Option<ShapeId>,
    is_keyed: bool,
    is_flat: bool,
    /// Where its places end; they begin where those of the layout before end.
    places_end: u32,
}

/// All layouts of one text.
pub(super) struct Layouts {
    fields: Interner<Field>,
    all: Vec<Layout>,
    /// For each layout, the names of its fields with their places, in the order of the names.
    places: Vec<(NameId, u32)>,
    shapes: Interner<Column>,
    /// The columns of the shape that is being looked up.
    columns: Vec<Column>,
}

impl Layouts {
    pub(super) fn new() -> Layouts {
        Layouts {
            fields: Interner::new(),
            all: Vec::new(),
            places: Vec::new(),
            shapes: Interner::new(),
            columns: Vec::new(),
        }
    }

    /// The layout of an object with these fields; `guess` is looked at first.
    pub(super) fn intern(
        &mut self,
        fields: &[Field],
        guess: Option<LayoutId>,
    ) -> Result<LayoutId, NotEncodable> {
        if let Some(guess) = guess
            && self.fields(guess) == fields
        {
            return Ok(guess);
        }
        let (id, is_new) = self.fields.intern(fields)?;
        if is_new {
            self.describe(fields)?;
        }
        Ok(id)
    }

    /// The fields in the order of the text.
    pub(super) fn fields(&self, id: LayoutId) -> &[Field] {
        self.fields.get(id).unwrap_or_default()
    }

    /// What a table of such objects needs: at least one field, and plain values at the end of every path.
    pub(super) fn shape(&self, id: LayoutId) -> Option<ShapeId> {
        self.all.get(id as usize)?.shape
    }

    /// True for an object that is itself written as a table, whose rows are its fields: two or more, all objects of one shape.
    pub(super) fn is_keyed(&self, id: LayoutId) -> bool {
        self.all.get(id as usize).is_some_and(|layout| layout.is_keyed)
    }

    /// True if no field holds an array or object.
    pub(super) fn is_flat(&self, id: LayoutId) -> bool {
        self.all.get(id as usize).is_some_and(|layout| layout.is_flat)
    }

    /// The place of a field among those of a layout.
    pub(super) fn place(&self, id: LayoutId, name: NameId) -> Option<usize> {
        let end = self.all.get(id as usize)?.places_end as usize;
        let places = self.places.get(end - self.fields(id).len()..end)?;
        let found = places.binary_search_by_key(&name, |&(name, _)| name).ok()?;
        places.get(found).map(|&(_, place)| place as usize)
    }

    /// Notes what is to be known of the next layout.
    fn describe(&mut self, fields: &[Field]) -> Result<(), NotEncodable> {
        let start = self.places.len();
        for (place, &(name, _)) in fields.iter().enumerate() {
            self.places.push((name, narrow(place)?));
        }
        let places = self.places.get_mut(start..).unwrap_or_default();
        places.sort_unstable();
        if places.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b)) {
            return Err(NotEncodable::DuplicateKey);
        }
        let is_table = self.set_columns(fields, start);
        let shape = if is_table { Some(self.shapes.intern(&self.columns)?.0) } else { None };
        let is_keyed = is_table && self.columns.len() > 1 && all_one_shape(&self.columns);
        let is_flat = fields.iter().all(|(_, holds)| *holds == Holds::Plain);
        self.all.push(Layout { shape, is_keyed, is_flat, places_end: narrow(self.places.len())? });
        Ok(())
    }

    /// Collects the columns of the fields whose places begin at `start`, if each makes one or several, and there is one.
    fn set_columns(&mut self, fields: &[Field], start: usize) -> bool {
        self.columns.clear();
        for &(name, place) in self.places.get(start..).unwrap_or_default() {
            let shape = match fields.get(place as usize) {
                Some((_, Holds::Plain)) => None,
                Some(&(_, Holds::Object(id))) => match self.shape(id) {
                    None => return false,
                    shape => shape,
                },
                Some((_, Holds::Array)) | None => return false,
            };
            self.columns.push((name, shape));
        }
        !fields.is_empty()
    }
}

fn all_one_shape(columns: &[Column]) -> bool {
    let first = columns.first().and_then(|&(_, shape)| shape);
    first.is_some() && columns.iter().all(|&(_, shape)| shape == first)
}
