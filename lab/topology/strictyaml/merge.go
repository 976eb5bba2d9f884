package strictyaml

import "reflect"

// Merge lays src over dst, both pointers to one struct type: lists are
// appended, mappings and structs merged key by key, and of anything else the
// value of src wins if its file gave one, or if it is not the zero value. The
// places of values follow, so that a mistake is reported where it was written.
// Merge shares the lists and structs of src that dst has no part of; src is not
// changed.
func Merge[T any](dst, src *T) {
	merge(reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem(), "", &At{}, &At{})
}

func merge(dst, src reflect.Value, path string, to, from *At) {
	kind := dst.Kind()
	if isText(dst.Type()) {
		kind = reflect.String // a value as a whole, whatever it is made of
	}
	switch kind {
	case reflect.Pointer:
		switch {
		case src.IsNil():
		case dst.IsNil():
			dst.Set(src)
		default:
			// The struct of dst may be shared with another holder.
			own := reflect.New(dst.Type().Elem())
			own.Elem().Set(dst.Elem())
			merge(own.Elem(), src.Elem(), path, to, from)
			dst.Set(own)
		}
	case reflect.Struct:
		mergeStruct(dst, src, path, to, from)
	case reflect.Map:
		if src.Len() == 0 {
			return
		}
		own := reflect.MakeMap(dst.Type())
		for _, k := range dst.MapKeys() {
			own.SetMapIndex(k, dst.MapIndex(k))
		}
		for _, k := range src.MapKeys() {
			elem := reflect.New(dst.Type().Elem()).Elem()
			if old := dst.MapIndex(k); old.IsValid() {
				elem.Set(old)
			}
			merge(elem, src.MapIndex(k), Key(path, k.String()), to, from)
			own.SetMapIndex(k, elem)
		}
		dst.Set(own)
	case reflect.Slice:
		n := dst.Len()
		dst.Set(reflect.AppendSlice(dst.Slice3(0, n, n), src))
		for i := range src.Len() {
			copyPlace(to, from, Item(path, n+i), Item(path, i))
		}
		return
	default:
		if src.IsZero() && !from.Has(path) {
			return
		}
		dst.Set(src)
	}
	copyPlace(to, from, path, path)
}

func mergeStruct(dst, src reflect.Value, path string, to, from *At) {
	if l, ok := dst.Addr().Interface().(locatable); ok {
		a := l.at()
		values := a.values
		a.values = nil
		for p, s := range values {
			a.set(p, s)
		}
		path, to, from = "", a, atOf(src)
		if !a.pos.IsValid() {
			a.pos = from.pos
		}
	}
	for _, f := range fields(dst.Type()) {
		merge(dst.Field(f.index), src.Field(f.index), Key(path, f.key), to, from)
	}
}

func atOf(v reflect.Value) *At {
	if v.CanAddr() {
		return v.Addr().Interface().(locatable).at()
	}
	c := reflect.New(v.Type())
	c.Elem().Set(v)
	return c.Interface().(locatable).at()
}

func copyPlace(to, from *At, toPath, fromPath string) {
	if s, ok := from.values[fromPath]; ok {
		to.set(toPath, s)
	}
}
